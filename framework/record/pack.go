package record

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"
)

// A record's file is one zstd frame with the lines, which grows with each write, followed at the
// end by a seal: a skippable frame, which decompressors ignore, with the CRC-32C of all bytes
// before it. The seal also detects damage that leaves the lines unchanged.

const (
	// window is how far back the compression looks. A wider one does not shrink records, but
	// needs more memory in writers and readers.
	window = 256 << 10
	// maxWindow is the largest window that a reader accepts from a foreign file.
	maxWindow = 1 << 20
	// sealMagic is one of the numbers that zstd reserves for users.
	sealMagic = 0x184D2A5C
	sealLen   = 12
)

func sealOf(sum uint32) []byte {
	seal := binary.LittleEndian.AppendUint32(nil, sealMagic)
	seal = binary.LittleEndian.AppendUint32(seal, sealLen-8)
	return binary.LittleEndian.AppendUint32(seal, sum)
}

// packer compresses lines into a file.
type packer struct {
	out io.Writer
	enc *zstd.Encoder
	buf bytes.Buffer // the encoder's output since the last write
	sum uint32       // of the file's content
	err error        // the first error; data behind a gap is useless
}

func newPacker(out io.Writer) (*packer, error) {
	return newPackerOf(out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
}

func newPackerOf(out io.Writer, options ...zstd.EOption) (*packer, error) {
	p := &packer{out: out}
	var err error
	p.enc, err = zstd.NewWriter(&p.buf, append(options, zstd.WithEncoderConcurrency(1))...)
	return p, err
}

func newBestPacker(out io.Writer) (*packer, error) {
	return newPackerOf(out, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(maxWindow))
}

// Pack rewrites the file of a complete record, a third smaller: with the best compression, for
// which a run has no time, and without checksums on the lines between the first and the last one.
// These are the part of a line that cannot be compressed, and the last one proves all others.
func Pack(out io.Writer, in io.Reader) error {
	u, err := newUnpacker(in)
	if err != nil {
		return err
	}
	defer u.dec.Close()
	p, err := newBestPacker(out)
	if err != nil {
		return err
	}
	err = packLines(p.enc, bufio.NewReaderSize(u, 64<<10))
	if err = errors.Join(err, u.err); err == nil {
		err = u.checkSeal()
	}
	return errors.Join(err, p.Close())
}

// PackEntries writes the file of a complete record, as Pack does. The last entry is the end.
func PackEntries(out io.Writer, meta Meta, entries []Entry) error {
	data, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	sum := seedSum(meta.Run)
	for _, e := range append([]Entry{{Kind: KindMeta, Data: data}}, entries...) {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		sum = sum.next(line)
		fmt.Fprintf(&lines, "%s %s\n", sum[:], line)
	}
	p, err := newBestPacker(out)
	if err != nil {
		return err
	}
	return errors.Join(packLines(p.enc, bufio.NewReader(&lines)), p.Close())
}

// packLines copies lines, all but the first and the last one without their checksums.
func packLines(out io.Writer, in *bufio.Reader) error {
	var line []byte // not yet written
	for n := 0; ; n++ {
		next, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		last := len(next) == 0
		if _, text, ok := cutSum(line); ok && n > 1 && !last {
			line = text
		}
		if _, err := out.Write(line); err != nil || last {
			return err
		}
		line = next
	}
}

// Write writes lines to the file: once it has returned, a reader finds them there.
func (p *packer) Write(lines []byte) (int, error) {
	if p.err == nil {
		_, p.err = p.enc.Write(lines)
	}
	if p.err == nil {
		p.err = p.enc.Flush()
	}
	if p.give(); p.err != nil {
		return 0, p.err
	}
	return len(lines), nil
}

// Close ends the frame and seals the file.
func (p *packer) Close() error {
	if p.err == nil {
		p.err = p.enc.Close()
	}
	p.give()
	p.buf.Write(sealOf(p.sum))
	p.give()
	return p.err
}

// give writes the buffer to the file, with one write.
func (p *packer) give() {
	if p.err != nil {
		return
	}
	p.sum = crc32.Update(p.sum, castagnoli, p.buf.Bytes())
	_, p.err = p.out.Write(p.buf.Bytes())
	p.buf.Reset()
}

// unpacker reads the lines of a file, in bounded memory, and checks its seal.
type unpacker struct {
	in   io.Reader
	dec  *zstd.Decoder
	sum  uint32 // of what was read, apart from tail
	tail []byte // the last bytes that were read
	err  error  // of in, other than io.EOF
}

// newUnpacker reads from in. The caller closes dec.
func newUnpacker(in io.Reader) (*unpacker, error) {
	u := &unpacker{in: in}
	var err error
	u.dec, err = zstd.NewReader(bufio.NewReaderSize(packed{u}, 32<<10), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	return u, err
}

func (u *unpacker) Read(p []byte) (int, error) { return u.dec.Read(p) }

// checkSeal says what is wrong with the end of the file, once all of it is read.
func (u *unpacker) checkSeal() error {
	want := sealOf(u.sum)
	switch {
	case bytes.Equal(u.tail, want):
		return nil
	case len(u.tail) == sealLen && bytes.Equal(u.tail[:8], want[:8]):
		return errors.New("the seal does not match the file's bytes: some of them were changed")
	}
	return errors.New("the file does not end with a seal: it was cut off, or something was added")
}

// packed is the compressed side of an unpacker.
type packed struct{ u *unpacker }

func (s packed) Read(p []byte) (int, error) {
	u := s.u
	n, err := u.in.Read(p)
	if err != nil && err != io.EOF {
		u.err = err
	}
	u.tail = append(u.tail, p[:n]...)
	if more := len(u.tail) - sealLen; more > 0 {
		u.sum = crc32.Update(u.sum, castagnoli, u.tail[:more])
		u.tail = append(u.tail[:0], u.tail[more:]...)
	}
	return n, err
}
