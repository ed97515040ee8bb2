package clock

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"unsafe"
)

// templates returns the addresses of the code in stub_amd64.s.
func templates() (clockGettimeCode, gettimeofdayCode, timeCode uintptr)

// What stub_amd64.s has in place of the constants, and at its functions' ends.
const (
	placeBase   = 0x62ba5e62ba5e62ba
	placeRate   = 0x724a7e724a7e724a
	placeOffset = 0x0ff5e70ff5e70ff5
	placeEnd    = 0x0de50de50de50de5
)

// stub is the code that takes the place of all functions, with placeholders for
// the constants.
type stub struct {
	code []byte
	// starts are where the functions begin.
	starts map[function]int
	// base, rate and offset are where the constants go, for each function.
	base, rate, offset []int
}

// loadStub copies the code out of this program's own text.
var loadStub = sync.OnceValues(func() (*stub, error) {
	s := &stub{starts: map[function]int{}}
	a, b, c := templates()
	for i, address := range []uintptr{a, b, c} {
		code, err := copyCode(address)
		if err != nil {
			return nil, fmt.Errorf("the code for %s: %w", functions()[i], err)
		}
		start := len(s.code)
		s.starts[functions()[i]] = start
		for place, at := range map[uint64]*[]int{placeBase: &s.base, placeRate: &s.rate, placeOffset: &s.offset} {
			pattern := binary.LittleEndian.AppendUint64(nil, place)
			if bytes.Count(code, pattern) != 1 {
				return nil, fmt.Errorf("the code for %s does not have exactly one place for the constant %#x", functions()[i], place)
			}
			*at = append(*at, start+bytes.Index(code, pattern))
		}
		s.code = append(s.code, code...)
		for len(s.code)%16 != 0 {
			s.code = append(s.code, 0xcc)
		}
	}
	return s, nil
})

// copyCode returns the code at an address of this program up to its end mark.
func copyCode(address uintptr) ([]byte, error) {
	const longest = 512
	// Text is neither moved nor collected. The conversion goes through a
	// pointer since go vet cannot know that.
	code := unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), longest)
	end := bytes.Index(code, binary.LittleEndian.AppendUint64(nil, placeEnd))
	if end < 0 {
		return nil, fmt.Errorf("it has no end within %d bytes", longest)
	}
	return bytes.Clone(code[:end]), nil
}

// with returns the code with the constants in their places.
func (s *stub) with(c constants) []byte {
	code := bytes.Clone(s.code)
	for _, put := range []struct {
		at    []int
		value int64
	}{{s.base, c.base}, {s.rate, c.rate}, {s.offset, c.offset}} {
		for _, at := range put.at {
			binary.LittleEndian.PutUint64(code[at:], uint64(put.value))
		}
	}
	return code
}

// constantsOf reads back the constants of code made by with, and refuses
// anything else.
func (s *stub) constantsOf(code []byte) (constants, error) {
	if len(code) < len(s.code) {
		return constants{}, fmt.Errorf("it has %d bytes, not %d", len(code), len(s.code))
	}
	read := func(at []int) int64 { return int64(binary.LittleEndian.Uint64(code[at[0]:])) }
	c := constants{base: read(s.base), rate: read(s.rate), offset: read(s.offset)}
	if !bytes.Equal(s.with(c), code[:len(s.code)]) {
		return constants{}, fmt.Errorf("it is not the code that shifts clocks")
	}
	return c, nil
}
