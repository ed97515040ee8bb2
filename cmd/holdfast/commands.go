package main

import "github.com/spf13/cobra"

func addCommands(root *cobra.Command) {
	add := func(title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
		for _, cmd := range commands {
			cmd.GroupID = title
		}
		root.AddCommand(commands...)
	}
	add("Test a cluster",
		newRunCommand(),
		newCatalogCommand(),
		newFaultsCommand(),
		newSelftestCommand(),
	)
	add("Read results",
		newJudgeCommand(),
		newRecordCommand(),
		newReportCommand(),
		newDiffCommand(),
		newHistoryCommand(),
	)
	add("Certify a cluster",
		newKeygenCommand(),
		newCertifyCommand(),
		newVerifyCommand(),
	)
	add("Create a cluster and use it",
		newUpCommand(),
		newListCommand(),
		newStatusCommand(),
		newKubectlCommand(),
		newKubeconfigCommand(),
		newShellCommand(),
		newLogsCommand(),
		newInjectCommand(),
		newHealCommand(),
		newUpgradeCommand(),
		newRotateCommand(),
		newScaleCommand(),
		newSnapshotCommand(),
		newDownCommand(),
	)
	add("Describe an existing cluster",
		newInventoryCommand(),
		newProfileCommand(),
		newConsentCommand(),
	)
	add("Prepare this machine",
		newDoctorCommand(),
		newFetchCommand(),
		newKindCommand(),
	)
	root.AddCommand(newSchemaCommand(), newVersionCommand())
}
