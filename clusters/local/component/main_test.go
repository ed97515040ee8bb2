package component

import (
	"os"
	"testing"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

// asEtcd is set in the environment of copies of the test that are to be etcd.
const asEtcd = "HOLDFAST_TEST_AS_ETCD"

func TestMain(m *testing.M) {
	if os.Getenv(asEtcd) != "" {
		etcdmain.Main(append([]string{"etcd"}, os.Args[1:]...))
		os.Exit(0)
	}
	os.Exit(m.Run())
}
