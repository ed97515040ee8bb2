package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"
)

// A strict reverse path filter (rp_filter 1, which the nodes of kind and many others have) would
// drop the packets that come back from user space by another device. A device's effective filter
// is the stricter of its own and that of "all". So while links pass through user space, "all" is
// 0, and its value is that of each other device that had a smaller one.

const confDir = "/proc/sys/net/ipv4/conf"

// allDevices is the directory of settings that apply to every device.
const allDevices = "all"

func filterFile(device string) string { return filepath.Join(confDir, device, "rp_filter") }

func filterOf(device string) (int, error) {
	b, err := os.ReadFile(filterFile(device))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

func setFilter(device string, to int) error {
	return os.WriteFile(filterFile(device), []byte(strconv.Itoa(to)), 0)
}

// quieten stops the kernel from sending its own packets through the devices of a detour, and
// makes it accept packets from them as if they came from another device. It records what it
// changes on others before it does so.
func (d *detours) quieten(devices [2]string) error {
	for _, name := range devices {
		// A kernel without IPv6 has no such files. The device stays without addresses, and accepts
		// packets to those of other devices.
		for _, s := range [][2]string{{"disable_ipv6", "1"}, {"addr_gen_mode", "1"}, {"disable_ipv6", "0"}} {
			_ = os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", name, s[0]), []byte(s[1]), 0)
		}
	}
	if err := errors.Join(setFilter(devices[0], 0), setFilter(devices[1], 0)); err != nil {
		return fmt.Errorf("failed to switch the reverse path filter off: %w", err)
	}
	all, err := filterOf(allDevices)
	if err != nil || all == 0 {
		return err
	}
	was, err := smallerFilters(all)
	if err != nil {
		return err
	}
	was[allDevices] = all
	err = d.store.update(func(st *state) {
		for name, value := range was {
			if _, ok := st.Filters[name]; !ok {
				st.Filters[name] = value
			}
		}
	})
	if err != nil {
		return err
	}
	delete(was, allDevices)
	for name := range was {
		if err := setFilter(name, all); err != nil && !errors.Is(err, fs.ErrNotExist) { // a device may disappear at any time
			return err
		}
	}
	return setFilter(allDevices, 0)
}

// smallerFilters returns the filters of the devices that have a smaller one than all.
func smallerFilters(all int) (map[string]int, error) {
	devices, err := os.ReadDir(confDir)
	if err != nil {
		return nil, err
	}
	filters := map[string]int{}
	for _, e := range devices {
		if e.Name() == allDevices || strings.HasPrefix(e.Name(), detourDevice) {
			continue
		}
		own, err := filterOf(e.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case own < all:
			filters[e.Name()] = own
		}
	}
	return filters, nil
}

// changedFilters returns the devices whose filters were changed, "all" first, so that no filter
// is weaker than before at any time, and the value that each was given.
func changedFilters(was map[string]int) (devices []string, given map[string]int) {
	given = map[string]int{}
	for name := range was {
		given[name] = was[allDevices]
	}
	given[allDevices] = 0
	devices = slices.Sorted(maps.Keys(was))
	if i := slices.Index(devices, allDevices); i > 0 {
		devices = slices.Insert(slices.Delete(devices, i, i+1), 0, allDevices)
	}
	return devices, given
}

// restoreFilters undoes what quieten did to other devices. It skips devices that are gone, and
// filters that have been changed by others since.
func (d *detours) restoreFilters() {
	var was map[string]int
	d.store.read(func(st *state) { was = maps.Clone(st.Filters) })
	if len(was) == 0 {
		return
	}
	devices, given := changedFilters(was)
	for _, name := range devices {
		now, err := filterOf(name)
		if err == nil && now == given[name] {
			err = setFilter(name, was[name])
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			complain(fmt.Errorf("failed to restore the reverse path filter of %s to %d: %w", name, was[name], err))
			return
		}
	}
	d.store.note(func(st *state) { clear(st.Filters) })
}

// filterScript is restoreFilters as part of healScript.
func filterScript(was map[string]int) string {
	if len(was) == 0 {
		return ""
	}
	var b strings.Builder
	devices, given := changedFilters(was)
	for _, name := range devices {
		fmt.Fprintf(&b, "{ [ \"$(cat %[1]s)\" != %[2]d ] || echo %[3]d >%[1]s; } 2>/dev/null || rc=1\n", shellescape.Quote(filterFile(name)), given[name], was[name])
	}
	return b.String()
}
