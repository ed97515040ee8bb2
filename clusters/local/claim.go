package local

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/local/vip"
)

// claim is an address that this machine took over from another one. It is announced repeatedly
// until it is released: a host that missed an announcement keeps sending to the old one.
type claim struct {
	mu   sync.Mutex
	addr netip.Addr // invalid if no address is claimed
	stop func() error
}

// claimAgain is how often an address is announced.
const claimAgain = time.Second

// set releases the claimed address and claims addr, if addr is valid.
func (c *claim) set(addr netip.Addr) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if addr == c.addr {
		return nil
	}
	if c.stop != nil {
		if err := c.stop(); err != nil {
			return err
		}
	}
	c.addr, c.stop = netip.Addr{}, nil
	if !addr.IsValid() {
		return nil
	}
	card, err := vip.NewCard(machineDevice, addr)
	if err != nil {
		return err
	}
	if err := card.Take(); err != nil {
		card.Close()
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var announcing sync.WaitGroup
	announcing.Go(func() {
		for again := time.NewTicker(claimAgain); ; {
			if err := card.Announce(); err != nil {
				fmt.Fprintf(os.Stderr, "node agent: %v\n", err)
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	})
	c.addr, c.stop = addr, func() error {
		cancel()
		announcing.Wait()
		defer card.Close()
		return card.Drop()
	}
	return nil
}

// claim makes the machine claim an address, now and after each restart. An invalid address
// releases the claim.
func (m *machine) claim(ctx context.Context, addr netip.Addr) error {
	m.configMu.Lock()
	m.config.Claimed = addr
	m.configMu.Unlock()
	if err := m.writeConfig(); err != nil || !m.powered() {
		return err
	}
	return m.agent.Call(ctx, claimPath, "claim another address", nil, nil)
}
