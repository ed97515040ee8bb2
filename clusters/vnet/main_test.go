package vnet

import (
	"os"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { os.Exit(sandboxtest.Main(m)) }
