package engine

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestStorageDriver(t *testing.T) {
	dir := t.TempDir()
	// Where overlays are no use, here or anywhere, there is a fallback.
	missing := dir + "/missing"
	if driver, warning := storageDriver(missing, true); driver != driverFuseOverlay || !strings.Contains(warning, "slower") {
		t.Errorf("%s, %q", driver, warning)
	}
	if driver, warning := storageDriver(missing, false); driver != driverVFS || !strings.Contains(warning, "XDG_CACHE_HOME") || !strings.Contains(warning, "fuse-overlayfs") {
		t.Errorf("%s, %q", driver, warning)
	}
	driver, warning := storageDriver(dir, false)
	if !slices.Contains([]string{driverOverlay2, driverVFS}, driver) || (driver == driverVFS) != (warning != "") {
		t.Errorf("%s, %q", driver, warning)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the trial left %v, %v", left, err)
	}
}

func TestIDMap(t *testing.T) {
	for text, size := range map[string]int{
		"         0          0 4294967295\n": idCount, // all of them
		"         0     100000      65536\n": 65536,   // in a container
	} {
		file := t.TempDir() + "/uid_map"
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		maps, err := idMap(file)
		if err != nil || len(maps) != 1 || maps[0].ContainerID != 0 || maps[0].HostID != 0 || maps[0].Size != size {
			t.Errorf("%q: %+v, %v", text, maps, err)
		}
	}
}
