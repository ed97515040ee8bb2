package record

import (
	"encoding/hex"
	"hash/crc32"
)

// FileName is the name of a record's file in its directory.
const FileName = "record.jsonl"

const (
	sumLen = 8 // hex digits of a checksum
	// maxLine bounds what a reader keeps in memory for a line of garbage.
	maxLine = 16 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chainSum is the checksum of one line: eight lower-case hex digits. The next
// line's checksum starts from these digits.
type chainSum [sumLen]byte

// seedSum is what the first line's checksum starts from: the run's identity,
// so that lines of another run never fit.
func seedSum(run string) chainSum {
	return hexSum(crc32.Checksum([]byte(run), castagnoli))
}

// next returns the checksum of the line whose JSON is given.
func (c chainSum) next(json []byte) chainSum {
	return hexSum(crc32.Update(crc32.Checksum(c[:], castagnoli), castagnoli, json))
}

func hexSum(sum uint32) (c chainSum) {
	hex.Encode(c[:], []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	return c
}

// kindOf returns the kind of entry that holds a value of v's type.
func kindOf(v any) (Kind, bool) {
	switch v.(type) {
	case Op, *Op:
		return KindOp, true
	case Probe, *Probe:
		return KindProbe, true
	case Endpoints, *Endpoints:
		return KindEndpoints, true
	case Lease, *Lease:
		return KindLease, true
	case EtcdStatus, *EtcdStatus:
		return KindEtcd, true
	case ProcessState, *ProcessState:
		return KindProcess, true
	case Fault, *Fault:
		return KindFault, true
	case Steady, *Steady:
		return KindSteady, true
	case Phase, *Phase:
		return KindPhase, true
	case Harness, *Harness:
		return KindHarness, true
	case List, *List:
		return KindList, true
	case Watch, *Watch:
		return KindWatch, true
	case Event, *Event:
		return KindEvent, true
	case Action, *Action:
		return KindAction, true
	case Backend, *Backend:
		return KindBackend, true
	}
	return "", false
}
