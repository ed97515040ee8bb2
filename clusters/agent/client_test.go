package agent

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// TestClientErrors checks what the errors of a client say that it failed to do.
func TestClientErrors(t *testing.T) {
	noRoute := errors.New("no route to the node")
	c := NewClient("node-1", func(context.Context) (net.Conn, error) { return nil, noRoute })
	ctx, etcd := t.Context(), framework.Etcd
	last := func(_ any, err error) error { return err }
	n := NewNetwork("c", []Party{{Name: "node-1", Agents: []*Client{c}}, {Name: "node-2"}})
	link := []framework.Link{{From: "node-2", To: "node-1"}}
	tests := map[string]struct {
		err  error
		want string // after "failed to", and before the node
	}{
		"Ping":                  {c.Ping(ctx), "ping the agent"},
		"Lapsed":                {last(c.Lapsed(ctx)), "query early healing"},
		"Processes":             {last(c.Processes(ctx)), "list components"},
		"Process":               {last(c.Process(ctx, etcd)), "query the process of etcd"},
		"Connections":           {last(c.Connections(ctx, nil)), "list TCP connections"},
		"SendProbes":            {c.SendProbes(ctx, netip.AddrPort{}, 1), "send packets"},
		"Kill":                  {c.Kill(ctx, etcd, 0), "kill etcd"},
		"Stop":                  {c.Stop(ctx, etcd, 0), "stop etcd"},
		"Start":                 {c.Start(ctx, etcd), "start etcd"},
		"Admit":                 {c.Admit(ctx, etcd, 0), "admit etcd"},
		"Renew":                 {c.Renew(ctx, etcd, nil), "renew etcd"},
		"Reload":                {c.Reload(ctx, etcd), "reload etcd"},
		"Freeze":                {c.Freeze(ctx, etcd, 0), "freeze etcd"},
		"Thaw":                  {c.Thaw(ctx, etcd), "thaw etcd"},
		"CrashLoop":             {c.CrashLoop(ctx, etcd, 0, 0), "crash-loop etcd"},
		"EndCrashLoop":          {c.EndCrashLoop(ctx, etcd), "end the crash loop of etcd"},
		"Call":                  {c.Call(ctx, "x", "start a load", nil, nil), "start a load"},
		"RejoinEtcd":            {c.RejoinEtcd(ctx, nil), "change the data of etcd"},
		"ReplaceEtcdData":       {c.ReplaceEtcdData(ctx, t.TempDir()), "change the data of etcd"},
		"EtcdPeer":              {last(c.EtcdPeer(ctx)), "read the configuration of etcd"},
		"DialEtcd":              {last(c.DialEtcd(ctx)), "reach etcd"},
		"WipeDisk":              {last(c.WipeDisk(ctx, 0)), "wipe the data of etcd"},
		"RestoreDisk":           {c.RestoreDisk(ctx, ""), "restore the data of etcd"},
		"ListDisk":              {last(c.ListDisk(ctx)), "list the data of etcd"},
		"CheckVolume":           {c.CheckVolume(ctx), "check the file system of etcd's data"},
		"FillVolume":            {last(c.FillVolume(ctx, 0, 0)), "fill the file system of etcd's data"},
		"EmptyVolume":           {c.EmptyVolume(ctx, ""), "free the space of etcd's data"},
		"ProbeVolume":           {last(c.ProbeVolume(ctx)), "probe the file system of etcd's data"},
		"SpoilCertificates":     {c.SpoilCertificates(ctx, etcd, framework.CertificateExpired, time.Hour), "replace the certificates of etcd with defective ones"},
		"RestoreCertificates":   {c.RestoreCertificates(ctx, etcd), "restore the certificates of etcd"},
		"DefectiveCertificates": {last(c.DefectiveCertificates(ctx)), "ask which certificates are defective"},
		"Active":                {last(c.Active(ctx)), "ask which faults are active"},
		"HealAll":               {c.HealAll(ctx), "heal everything"},
		"ShiftClock":            {last(c.ShiftClock(ctx, []framework.Component{etcd}, framework.ClockShift{}, 0)), "shift the clock of [etcd]"},
		"UnshiftClock":          {c.UnshiftClock(ctx, "h"), "undo the clock shift h"},
		"ReadClock":             {last(c.ReadClock(ctx, etcd)), "read the clock of etcd"},
		"FollowAudit":           {c.FollowAudit(ctx, nil), "follow the audit log"},

		"network: Meet":            {n.Meet(ctx), "set the peers"},
		"network: CheckImpairment": {n.CheckImpairment(ctx, link, framework.Impairment{Cut: true}), "ask which impairments its links support"},
		"network: Restore":         {n.Restore(ctx, "h"), "restore links"},
		"network: LinkState":       {last(n.LinkState(ctx, "node-2", "node-1")), "query the state of a link"},
		"promise":                  {c.promise(ctx, "h", framework.Undoing{Fault: "lease-steal"}, nil, 0), "store how to undo lease-steal"},
		"withdraw":                 {c.withdraw(ctx, "h"), "withdraw a promise"},
	}
	for name, tc := range tests {
		// Only the network says more before it.
		if !errors.Is(tc.err, noRoute) || strings.Count(tc.err.Error(), "failed to") != 1 ||
			!strings.Contains(tc.err.Error(), "failed to "+tc.want+" on node-1: ") {
			t.Errorf("%s: %v", name, tc.err)
		}
	}
	for m := range reflect.TypeFor[*Client]().Methods() {
		if _, ok := tests[m.Name]; !ok && m.Name != "Close" {
			t.Errorf("no error of %s is checked", m.Name)
		}
	}
}
