package vnet

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	// bufferSize holds the largest frame that a kernel hands over: a TCP
	// segment of 64 KiB with all its headers.
	bufferSize = headerLen + 1<<16 + 1<<10

	// batch is how many frames of one port are read before the next one's.
	batch = 64

	wakeID   = 0
	timerID  = 1
	firstID  = 2 // of ports
	pollSize = 64
)

// loop moves the packets: an epoll instance with all ports, a timer for delayed packets and an
// event to wake it up.
type loop struct {
	epoll int
	event int
	timer int
	armed int64 // when the timer will fire, 0 if it will not
	done  chan struct{}
}

func newLoop() (*loop, error) {
	l := &loop{epoll: -1, event: -1, timer: -1, done: make(chan struct{})}
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("failed to create epoll instance: %w", err)
	}
	if l.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, errors.Join(fmt.Errorf("failed to create eventfd: %w", err), l.close())
	}
	if l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return nil, errors.Join(fmt.Errorf("failed to create timerfd: %w", err), l.close())
	}
	if err := errors.Join(l.add(l.event, wakeID), l.add(l.timer, timerID)); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *loop) add(fd int, id int32) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: id}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("failed to watch descriptor %d: %w", fd, err)
	}
	return nil
}

func (l *loop) remove(fd int) {
	// It fails only if the descriptor does not exist any more.
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, fd, nil)
}

func (l *loop) close() error {
	var errs []error
	for _, fd := range []int{l.epoll, l.event, l.timer} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}

// arm sets the timer to fire at a time on the switch's clock, 0 for never.
func (l *loop) arm(now, due int64) {
	if l.armed == due {
		return
	}
	var spec unix.ItimerSpec
	if due != 0 {
		spec.Value = unix.NsecToTimespec(max(due-now, 1))
	}
	if unix.TimerfdSettime(l.timer, 0, &spec, nil) == nil {
		l.armed = due
	}
}

// wake makes the loop check the state again. The lock must be held.
func (s *Switch) wake() {
	if s.loop != nil {
		one := [8]byte{1}
		_, _ = unix.Write(s.loop.event, one[:])
	}
}

// run moves packets until the switch is closed.
func (s *Switch) run(l *loop) {
	defer close(l.done)
	buf := make([]byte, bufferSize)
	events := make([]unix.EpollEvent, pollSize)
	for {
		n, err := unix.EpollWait(l.epoll, events, -1)
		if err != nil && err != unix.EINTR {
			// This happens only if the descriptor is not an epoll instance.
			panic(fmt.Sprintf("vnet: epoll_wait: %v", err))
		}
		s.mu.Lock()
		for _, e := range events[:max(n, 0)] {
			switch e.Fd {
			case wakeID:
				var count [8]byte
				_, _ = unix.Read(l.event, count[:])
			case timerID:
				l.armed = -1 // setting it clears the event
			default:
				if p := s.ports[e.Fd]; p != nil {
					s.drain(p, e.Events, buf)
				}
			}
		}
		if s.closed {
			s.mu.Unlock()
			return
		}
		due := s.sendDue()
		l.arm(s.now(), due)
		s.mu.Unlock()
	}
}

// broken reports whether a descriptor still has an error. Reading a socket's error clears it,
// which a write of another port's frame may have done.
func broken(fd int) bool {
	poll := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0 && poll[0].Revents != 0
}

// drain switches the frames that wait on a port, up to a batch of them.
func (s *Switch) drain(p *Port, events uint32, buf []byte) {
	for i := range batch {
		n, err := p.device.read(buf)
		switch err {
		case nil:
			s.receive(p, buf[:n])
		case unix.EAGAIN:
			if i == 0 && events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 && broken(p.device.fd()) {
				s.loop.remove(p.device.fd()) // its device was removed
			}
			return
		case unix.EINTR, unix.EINVAL, unix.ENETDOWN, unix.ENOBUFS:
			// EINVAL: a packet that a virtio-net header cannot describe.
			// ENETDOWN: the device was set down; it may come up again.
		default:
			s.loop.remove(p.device.fd())
			return
		}
		s.sendDue()
		if s.waiting.Load() > 0 && !s.yield(p) {
			return
		}
	}
}

// yield lets waiting callers run. It returns false if the port is gone after it.
func (s *Switch) yield(p *Port) bool {
	s.mu.Unlock()
	for i := 0; i < 100 && s.waiting.Load() > 0; i++ {
		runtime.Gosched()
	}
	s.mu.Lock()
	return s.ports[p.id] == p && !s.closed
}
