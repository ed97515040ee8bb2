// Package judges has the judges: one guarantee, one file. A judge uses facts, and the files
// without a judge, which make findings; it never uses another judge. hack/judges_test.go
// enforces that.
package judges

import "slices"

// Definitions returns the judges that run if a check names them.
func Definitions() []Definition {
	return []Definition{
		etcdMembership,
		controlPlaneComplete,
		noHiddenDependency,
		faultDomains,
		versionSkew,
		changedOneByOne,
		availableThroughChanges,
		membersFollow,
		balancerFollows,
		unsafeMemberRefused,
		ownAPIServer,
		objectsBetweenVersions, addonsConverge,
		timeSettings,
		certificates,
		tokensAccepted,
		certificatesLast,
		certificatesRotated,
		etcdAuthenticates,
		unknownReadsNothing,
		crossRead,
		isolatedMember,
		staleSerializableRead,
		writeGap,
		peersReconnect,
		requestsAnswered,
		quorumLoss,
		endpointsMatch,
		endpointRemoved,
		endpointReturned,
		endpointsStable,
		endpointsNeverEmpty,
		endpointsConverge,
		listWatch,
		watchesReturn,
		restarted, componentsGoOn, rejoins, snapshotVerifies, quotaReached, damageContained, restoredFromSnapshot,
		singleHolder,
		takeover,
		activeAgain,
		stopsActing,
		supervised,
		availability,
		clientsRecover,
		noFailedRequest,
		backendReturned,
		drainedByReadiness, returnsReady, spreadsAgain, oneAddress,
		sessionAffinity,
		throughput,
		endpointsFollow,
		learnsAddresses,
		failsOver,
		applicationFollows, applicationConverges, podsUntouched, nodesReady, nodeNotReady, workGoesOn, podsBound, holderWorks,
		handover,
		noStaleRead,
		commitLatency,
		noElection,
		writesSucceed,
		timeTravel,
	}
}

// RunWide returns the judges that apply to every record; a check may name them as well. Each
// decides the invariant that its Doc names; several may share one.
//
// A judge returns NotApplicable only if nothing that it judges was attempted, such as watches in
// a scenario without any, or if the cluster gives no access to it. If something was attempted and
// cannot be judged, it is Inconclusive: a violation may hide in it, which another scenario's Pass
// cannot rule out.
func RunWide() []Definition {
	return []Definition{
		linearizable, etcdLinearizable, noLostWrite, oneWinner, readYourWrites, monotonicReads, revisionOrder,
		listSemantics, listSnapshot,
		watchOrdered, watchUnique, watchReliable, watchResumable, watchBookmark, watchFilter, watchCompacted, watchAlive,
		watchFlags, watchContent, watchAtomic, watchPrevious,
		steadyState, restarts, oneActor, oneLeaderPerTerm, etcdHashes, etcdAlarms,
	}
}

// Nameable returns the judges that a check may name.
func Nameable() []Definition { return slices.Concat(Definitions(), RunWide()) }
