package clock

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// jumpSize is the size of the jump that replaces the beginning of a function.
const jumpSize = 5

// wordSize is the size of one ptrace write. A jump within one word is written as
// a whole or not at all.
const wordSize = 8

// function is one that returns the time. Functions of the same name without the
// prefix are at the same address.
type function string

const (
	clockGettime function = "__vdso_clock_gettime"
	gettimeofday function = "__vdso_gettimeofday"
	timeSeconds  function = "__vdso_time"
)

func functions() []function { return []function{clockGettime, gettimeofday, timeSeconds} }

// image is a vDSO as the kernel maps it, unchanged.
type image struct {
	bytes []byte
	// entries are where the functions begin.
	entries map[function]uint64
	// free is where the empty end begins.
	free uint64
}

// parseImage finds the functions and the empty end of a vDSO.
func parseImage(b []byte) (*image, error) {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("failed to read the vDSO: %w", err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return nil, fmt.Errorf("failed to read the symbols of the vDSO: %w", err)
	}
	img := &image{bytes: b, entries: map[function]uint64{}}
	for _, name := range functions() {
		i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == string(name) })
		if i < 0 {
			return nil, fmt.Errorf("the vDSO has no function %s", name)
		}
		s := symbols[i]
		switch {
		case s.Size < jumpSize || s.Value >= uint64(len(b)) || s.Size > uint64(len(b))-s.Value:
			return nil, fmt.Errorf("function %s of the vDSO (%d bytes at %#x) leaves no room for a jump", name, s.Size, s.Value)
		case s.Value%wordSize+jumpSize > wordSize:
			return nil, fmt.Errorf("function %s of the vDSO begins at %#x, where a jump cannot be written in one step", name, s.Value)
		}
		img.entries[name] = s.Value
	}
	if starts := slices.Sorted(maps.Values(img.entries)); len(slices.Compact(starts)) != len(functions()) {
		return nil, errors.New("functions of the vDSO share an address")
	}
	end := len(b)
	for end > 0 && b[end-1] == 0 {
		end--
	}
	const alignment = 16
	img.free = uint64(end+alignment-1) / alignment * alignment
	return img, nil
}
