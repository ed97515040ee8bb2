package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	attestation "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// PayloadType is the type of an in-toto statement in an envelope.
	PayloadType = "application/vnd.in-toto+json"
	// envelopes is the folder of the envelopes and of KeyFile; all other files are subjects of
	// the statements.
	envelopes = "attestations/"
	// envelopeSuffix is that of an envelope's file.
	envelopeSuffix = ".dsse.json"
	// KeyFile is the name of the public part of the key that signed.
	KeyFile = envelopes + "key.pem"
)

// Predicate is what a statement says of the files.
type Predicate struct {
	// Name is the name of the envelope, such as verdicts.
	Name string
	// Type is a URI.
	Type string
	// Body is a JSON object.
	Body any
}

// Bundle is an opened bundle: its files are unpacked, and its digests and signatures hold.
type Bundle struct {
	// Dir is the directory of the files.
	Dir string
	// Key is the signing key, as the bundle itself names it. The reader must know whose key it
	// is.
	Key *Key
	// Files is the number of files, and Names are the names of those that are signed.
	Files int
	Names []string
	// Predicates are those of the statements, by name; their bodies are json.RawMessage.
	Predicates []Predicate
}

// Write makes a bundle of all files below a directory: a statement for each predicate, with all
// files as its subjects, signed with the key. If it fails, it leaves no file.
func Write(file, dir string, key *Key, predicates ...Predicate) (err error) {
	names, err := filesIn(dir)
	if err != nil {
		return fmt.Errorf("failed to make a bundle: %w", err)
	}
	digests := map[string]string{}
	for _, name := range names {
		if digests[name], err = Digest(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("failed to make a bundle: %w", err)
		}
	}
	signed := map[string][]byte{KeyFile: key.PEM}
	for _, p := range predicates {
		if signed[envelopes+p.Name+envelopeSuffix], err = Sign(key, digests, p); err != nil {
			return fmt.Errorf("failed to sign a bundle: %w", err)
		}
	}
	all := slices.Concat(names, slices.Collect(maps.Keys(signed)))
	slices.Sort(all)
	out, err := os.CreateTemp(filepath.Dir(file), ".bundle.*.tmp")
	if err != nil {
		return fmt.Errorf("failed to make a bundle: %w", err)
	}
	defer os.Remove(out.Name()) // fails after the rename
	err = writeArchive(out, all, func(name string) (io.ReadCloser, int64, error) {
		if data, ok := signed[name]; ok {
			return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
		}
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, 0, err
		}
		info, err := f.Stat()
		if err != nil {
			return nil, 0, errors.Join(err, f.Close())
		}
		return f, info.Size(), nil
	})
	if err = errors.Join(err, out.Chmod(0o644), out.Sync(), out.Close()); err == nil {
		err = os.Rename(out.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("failed to make a bundle: %w", err)
	}
	return nil
}

// Open unpacks a bundle into an empty directory. An error says what does not hold.
func Open(file, dir string) (*Bundle, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("failed to open the bundle: %w", err)
	}
	defer f.Close()
	return Read(f, dir)
}

// Read is Open for a bundle from another source.
func Read(in io.Reader, dir string) (*Bundle, error) {
	digests, err := readArchive(in, dir)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Dir: dir, Files: len(digests)}
	text, err := os.ReadFile(filepath.Join(dir, KeyFile))
	if err != nil {
		return nil, fmt.Errorf("the bundle has no %s", KeyFile)
	}
	if b.Key, err = ParseKey(text); err != nil {
		return nil, fmt.Errorf("%s: %w", KeyFile, err)
	}
	if !bytes.Equal(text, b.Key.PEM) {
		return nil, fmt.Errorf("%s is not written as holdfast writes it: a byte was changed", KeyFile)
	}
	subjects := maps.Clone(digests)
	maps.DeleteFunc(subjects, func(name, _ string) bool { return strings.HasPrefix(name, envelopes) })
	b.Names = slices.Sorted(maps.Keys(subjects))
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		if name == KeyFile || !strings.HasPrefix(name, envelopes) {
			continue
		}
		statement, err := b.verified(name)
		if err == nil {
			err = sameFiles(statement, subjects)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		body, err := protojson.Marshal(statement.Predicate)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if _, twice := b.Predicate(statement.PredicateType); twice {
			return nil, fmt.Errorf("%s: there is another statement of type %s", name, statement.PredicateType)
		}
		name = strings.TrimSuffix(strings.TrimPrefix(name, envelopes), envelopeSuffix)
		b.Predicates = append(b.Predicates, Predicate{Name: name, Type: statement.PredicateType, Body: json.RawMessage(body)})
	}
	if len(b.Predicates) == 0 {
		return nil, errors.New("the bundle is not signed: it has no attestation")
	}
	return b, nil
}

// Predicate returns the body of the statement of a type; ok is false if there is none.
func (b *Bundle) Predicate(predicateType string) (body []byte, ok bool) {
	i := slices.IndexFunc(b.Predicates, func(p Predicate) bool { return p.Type == predicateType })
	if i < 0 {
		return nil, false
	}
	return b.Predicates[i].Body.(json.RawMessage), true
}

// Sign returns the envelope of a statement that says p of files with these SHA-256 digests.
func Sign(key *Key, digests map[string]string, p Predicate) ([]byte, error) {
	payload, err := Statement(digests, p)
	if err != nil {
		return nil, err
	}
	signer, err := dsse.NewEnvelopeSigner(key)
	if err != nil {
		return nil, err
	}
	e, err := signer.SignPayload(context.Background(), PayloadType, payload)
	if err != nil {
		return nil, err
	}
	return written(e)
}

// Statement returns an in-toto statement that says p of files with these SHA-256 digests.
func Statement(digests map[string]string, p Predicate) ([]byte, error) {
	body := &structpb.Struct{}
	text, err := json.Marshal(p.Body)
	if err == nil {
		err = protojson.Unmarshal(text, body)
	}
	if err != nil {
		return nil, fmt.Errorf("predicate %s: %w", p.Name, err)
	}
	s := &attestation.Statement{Type: attestation.StatementTypeUri, PredicateType: p.Type, Predicate: body}
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		s.Subject = append(s.Subject, &attestation.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": digests[name]}})
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("statement %s: %w", p.Name, err)
	}
	return protojson.Marshal(s)
}

// written returns the only valid form of an envelope.
func written(e *dsse.Envelope) ([]byte, error) {
	text, err := json.Marshal(e)
	return append(text, '\n'), err
}

// verified returns the statement of an envelope if its signature holds.
func (b *Bundle) verified(name string) (*attestation.Statement, error) {
	text, err := os.ReadFile(filepath.Join(b.Dir, name))
	if err != nil {
		return nil, err
	}
	var e dsse.Envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("not an envelope: %w", err)
	}
	if again, err := written(&e); err != nil || !bytes.Equal(text, again) || len(e.Signatures) != 1 || e.Signatures[0].KeyID != b.Key.ID || e.PayloadType != PayloadType {
		return nil, errors.New("the envelope differs from what holdfast writes: a byte was changed, or another key signed it")
	}
	verifier, err := dsse.NewEnvelopeVerifier(b.Key)
	if err != nil {
		return nil, err
	}
	_, payload, err := verifier.VerifyAndDecode(context.Background(), &e)
	if err != nil {
		return nil, fmt.Errorf("the signature is not valid for key %s: %w", b.Key.ID, err)
	}
	// The last characters of base64 have bits that decoding ignores.
	if e.Payload != encoded(payload) || e.Signatures[0].Sig != encodedAgain(e.Signatures[0].Sig) {
		return nil, errors.New("the envelope differs from what holdfast writes: a byte was changed")
	}
	s := &attestation.Statement{}
	if err := protojson.Unmarshal(payload, s); err != nil {
		return nil, fmt.Errorf("not an in-toto statement: %w", err)
	}
	return s, s.Validate()
}

// sameFiles returns how the subjects of a statement differ from the files in the bundle.
func sameFiles(s *attestation.Statement, files map[string]string) error {
	named := map[string]bool{}
	for _, subject := range s.Subject {
		name := subject.Name
		got, ok := files[name]
		switch {
		case named[name]:
			return fmt.Errorf("it names %s twice", name)
		case !ok:
			return fmt.Errorf("%s is missing from the bundle", name)
		case got != subject.Digest["sha256"]:
			return fmt.Errorf("%s was changed after it was signed: its SHA-256 digest is %s, but %s was signed", name, got, subject.Digest["sha256"])
		}
		named[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !named[name] {
			return fmt.Errorf("%s was added to the bundle after it was signed", name)
		}
	}
	return nil
}

func encoded(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

func encodedAgain(text string) string {
	data, _ := base64.StdEncoding.DecodeString(text) // the comparison shows a failure
	return encoded(data)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Digest returns the SHA-256 digest of a file.
func Digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}
