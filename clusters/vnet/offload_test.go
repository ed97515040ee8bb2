package vnet

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// checkPacket reports what is wrong with the lengths and checksums of a packet
// as a receiver would see it.
func checkPacket(t *testing.T, buf []byte) {
	t.Helper()
	frame := buf[headerLen:]
	p := parse(frame)
	if !p.hasPorts() {
		t.Fatal("packet has no ports")
	}
	ip := frame[p.network:]
	if p.version == 4 {
		if got := int(binary.BigEndian.Uint16(ip[2:])); got != len(ip) {
			t.Errorf("IPv4 total length %d, want %d", got, len(ip))
		}
		if fold(sum(0, ip[:p.transport-p.network])) != 0xffff {
			t.Error("IPv4 header checksum is wrong")
		}
	} else if got := int(binary.BigEndian.Uint16(ip[4:])); got != len(ip)-40 {
		t.Errorf("IPv6 payload length %d, want %d", got, len(ip)-40)
	}
	if buf[0]&unix.VIRTIO_NET_HDR_F_NEEDS_CSUM != 0 {
		t.Error("checksum still open")
	}
	if fold(sum(pseudoHeader(frame, p), frame[p.transport:])) != 0xffff {
		t.Error("transport checksum is wrong")
	}
}

func TestSegments(t *testing.T) {
	const fin, psh, ack, cwr = 0x01, 0x08, 0x10, 0x80
	for _, tc := range []struct {
		name  string
		spec  frameSpec
		count int
	}{
		{"TCP", frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoTCP, payload: 5000, gsoSize: 1448, tcpFlags: fin | psh | ack | cwr}, 4},
		{"TCP on IPv6", frameSpec{from: "fd00::1", to: "fd00::2", protocol: protoTCP, payload: 60001, gsoSize: 1428, tcpFlags: psh | ack}, 43},
		{"UDP", frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoUDP, payload: 3000, gsoSize: 1000}, 3},
		{"UDP on IPv6", frameSpec{from: "fd00::1", to: "fd00::2", protocol: protoUDP, payload: 3001, gsoSize: 1000}, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			buf := tc.spec.build()
			frame := buf[headerLen:]
			seg, ok := segmentationOf(decodeHeader(buf), frame)
			if !ok || seg.count != tc.count {
				t.Fatalf("segmentation %+v, %v; want %d packets", seg, ok, tc.count)
			}
			var payload []byte
			i := 0
			seg.segments(frame, nil, func(one []byte) {
				one = slices.Clone(one)
				if !completeChecksum(one) {
					t.Fatal("checksum cannot be completed")
				}
				checkPacket(t, one)
				payload = append(payload, one[headerLen+seg.headers:]...)
				if tc.spec.protocol == protoTCP {
					tcp := one[headerLen+seg.packet.transport:]
					want := uint32(0xfffffff0)
					want += uint32(i) * uint32(tc.spec.gsoSize)
					if got := binary.BigEndian.Uint32(tcp[4:]); got != want {
						t.Errorf("segment %d has sequence number %d, want %d", i, got, want)
					}
					flags := tc.spec.tcpFlags
					if i > 0 {
						flags &^= cwr
					}
					if i < tc.count-1 {
						flags &^= fin | psh
					}
					if tcp[13] != flags {
						t.Errorf("segment %d has flags %#x, want %#x", i, tcp[13], flags)
					}
				}
				i++
			})
			if i != tc.count || !bytes.Equal(payload, frame[seg.headers:]) {
				t.Errorf("%d packets, payload equal: %v", i, bytes.Equal(payload, frame[seg.headers:]))
			}
			packets, size := weigh(buf)
			if packets != uint64(tc.count) || size != uint64(len(frame)+(tc.count-1)*seg.headers) {
				t.Errorf("weighs %d packets, %d bytes", packets, size)
			}
		})
	}
}

func TestCompleteChecksum(t *testing.T) {
	buf := frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoUDP, sport: 1, dport: 2, payload: 11}.build()
	if !completeChecksum(buf) {
		t.Fatal("cannot be completed")
	}
	checkPacket(t, buf)
	before := slices.Clone(buf)
	if !completeChecksum(buf) || !bytes.Equal(buf, before) {
		t.Error("completing it again changes the packet")
	}
	outside := frameSpec{payload: 40}.build()
	header{flags: unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, csumStart: 54, csumOffset: 16}.encode(outside)
	if completeChecksum(outside) {
		t.Error("a checksum outside the frame was completed")
	}
}

func TestCorruptIsNoticed(t *testing.T) {
	whole := frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoTCP, payload: 100}.build()
	completed := slices.Clone(whole)
	completeChecksum(completed)
	for random := range uint64(8 * (len(whole) - headerLen - etherHeaderLen)) {
		buf := slices.Clone(whole)
		corrupt(buf, random)
		if buf[0] != 0 {
			t.Fatal("the receiver would not look at the checksum")
		}
		differ := 0
		for i := range buf[headerLen:] {
			for x := buf[headerLen+i] ^ completed[headerLen+i]; x != 0; x &= x - 1 {
				differ++
			}
		}
		if differ != 1 {
			t.Fatalf("%d bits differ, want 1", differ)
		}
	}
}
