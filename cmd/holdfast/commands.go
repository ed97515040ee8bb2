package main

import "github.com/spf13/cobra"

// commands lists every command, one line each.
func commands() []*cobra.Command {
	return []*cobra.Command{
		newDoctorCommand(),
		newFetchCommand(),
		newUpCommand(),
		newListCommand(),
		newStatusCommand(),
		newKubectlCommand(),
		newKubeconfigCommand(),
		newShellCommand(),
		newLogsCommand(),
		newUpgradeCommand(),
		newRotateCommand(),
		newScaleCommand(),
		newSnapshotCommand(),
		newDownCommand(),
		newInjectCommand(),
		newHealCommand(),
		newFaultsCommand(),
		newRunCommand(),
		newJudgeCommand(),
		newRecordCommand(),
		newReportCommand(),
		newDiffCommand(),
		newHistoryCommand(),
		newSelftestCommand(),
		newKeygenCommand(),
		newCertifyCommand(),
		newVerifyCommand(),
		newInventoryCommand(),
		newProfileCommand(),
		newConsentCommand(),
		newKindCommand(),
		newSchemaCommand(),
		newCatalogCommand(),
		newVersionCommand(),
	}
}
