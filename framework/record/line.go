package record

import (
	"encoding/hex"
	"hash/crc32"
	"path/filepath"
)

// FileName is the name of a record's file in its directory.
const FileName = "record.jsonl.zst"

// Dir is the directory of a scenario's record in a results directory.
func Dir(results, scenario string) string { return filepath.Join(results, "record", scenario) }

const (
	sumLen = 8 // hex digits of a checksum
	// maxLine bounds what a reader keeps in memory for a line. A writer refuses
	// longer ones.
	maxLine = 16 << 20
	// lineExtra is more than the rest of a line, apart from the data of its entry.
	lineExtra = 100
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

// next returns the checksum of the line with the given JSON.
func (c chainSum) next(json []byte) chainSum {
	return hexSum(crc32.Update(crc32.Checksum(c[:], castagnoli), castagnoli, json))
}

// cutSum splits a line into its checksum, zero if it has none, and its JSON.
func cutSum(line []byte) (sum chainSum, text []byte, ok bool) {
	if len(line) > 0 && line[0] == '{' {
		return sum, line, true
	}
	if len(line) < sumLen+1 || line[sumLen] != ' ' {
		return sum, nil, false
	}
	copy(sum[:], line)
	return sum, line[sumLen+1:], true
}

func hexSum(sum uint32) (c chainSum) {
	hex.Encode(c[:], []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	return c
}
