package balancer

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// HAProxyBackends queries HAProxy, configured by HAProxyConfig, for the state of its backends.
// The times of changes are in whole seconds.
func HAProxyBackends(ctx context.Context, statsSocket string) ([]framework.Backend, error) {
	table, err := haproxyAsk(ctx, statsSocket, "show stat")
	if err != nil {
		return nil, err
	}
	return parseStat(strings.NewReader(table), time.Now())
}

// haproxyAsk sends a command to HAProxy's stats socket, and returns the answer.
func haproxyAsk(ctx context.Context, statsSocket, command string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", statsSocket)
	if err != nil {
		return "", fmt.Errorf("failed to reach HAProxy's stats socket: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return "", fmt.Errorf("failed to send %q to HAProxy: %w", command, err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", fmt.Errorf("failed to read HAProxy's answer to %q: %w", command, err)
	}
	return string(answer), nil
}

// parseStat reads the table of "show stat"
// (https://docs.haproxy.org/3.0/management.html#9.1).
func parseStat(in io.Reader, now time.Time) ([]framework.Backend, error) {
	table := csv.NewReader(in)
	table.FieldsPerRecord = -1
	rows, err := table.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("HAProxy's state is not a table: %w", err)
	}
	if len(rows) == 0 {
		return nil, errors.New("HAProxy reported an empty state")
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[strings.TrimPrefix(name, "# ")] = i
	}
	for _, name := range []string{"svname", "status", "lastchg"} {
		if _, ok := column[name]; !ok {
			return nil, fmt.Errorf("HAProxy's state has no column %q", name)
		}
	}
	var all []framework.Backend
	for _, row := range rows[1:] {
		get := func(name string) string {
			if i, ok := column[name]; ok && i < len(row) {
				return row[i]
			}
			return ""
		}
		if name := get("svname"); name == "" || name == "FRONTEND" || name == "BACKEND" {
			continue
		}
		// "no check" is a server that is always used; during a change the state is "UP 1/2" or
		// "DOWN 1/2".
		b := framework.Backend{Name: get("svname"), Address: get("addr"), Check: strings.TrimSpace(get("check_status") + " " + get("last_chk")),
			Up: strings.HasPrefix(get("status"), "UP") || get("status") == "no check"}
		if s, err := strconv.Atoi(get("lastchg")); err == nil {
			b.Since = now.Add(-time.Duration(s) * time.Second)
		}
		all = append(all, b)
	}
	return all, nil
}
