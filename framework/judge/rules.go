package judge

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"hash"
	"path"
	"strings"
	"sync"
)

// sources are the sources of the judges.
//
//go:embed aliases.go coarser.go defect.go evaluate.go harness.go interrupted.go own.go result.go silenced.go internal verdict
var sources embed.FS

// Digest returns the SHA-256 digest of the sources of the built-in judges: two programs with the
// same one give the same verdicts on a record.
func Digest() string { return digest() }

var digest = sync.OnceValue(func() string {
	sum := sha256.New()
	if err := hashDir(sum, "."); err != nil {
		panic(err) // of files in the program
	}
	return hex.EncodeToString(sum.Sum(nil))
})

func hashDir(sum hash.Hash, dir string) error {
	entries, err := sources.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir():
			err = hashDir(sum, name)
		case !strings.HasSuffix(name, "_test.go"):
			var text []byte
			text, err = sources.ReadFile(name)
			fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
