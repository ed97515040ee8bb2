package undo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/members"
)

// release leaves a lease without its holder, as an instance does on a clean exit. It leaves alone a
// lease with another holder or in another storage format, which expires.
func release(ctx context.Context, all members.All, l framework.HeldLease) error {
	return all.First(ctx, func(ctx context.Context, m members.Member) error {
		answer, err := m.Client.Get(ctx, l.Key)
		if err != nil || len(answer.Kvs) == 0 {
			return err
		}
		stored := answer.Kvs[0]
		value, ok := released(stored.Value, l.Holder, time.Now().Truncate(time.Microsecond))
		if !ok {
			return nil
		}
		changed, err := m.Client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(l.Key), "=", stored.ModRevision)).
			Then(clientv3.OpPut(l.Key, string(value))).Commit()
		if err == nil && !changed.Succeeded {
			err = errors.New("the lease was changed in between")
		}
		return err
	})
}

// The numbers of fields in protocol buffers of Kubernetes (k8s.io/apimachinery/pkg/runtime,
// k8s.io/api/coordination/v1, k8s.io/apimachinery/pkg/apis/meta/v1: generated.proto).
const (
	unknownRaw protowire.Number = 2 // of runtime.Unknown, in which API servers store an object

	leaseSpec protowire.Number = 2 // of Lease

	specHolder   protowire.Number = 1 // of LeaseSpec: holderIdentity,
	specDuration protowire.Number = 2 // leaseDurationSeconds,
	specAcquire  protowire.Number = 3 // acquireTime
	specRenew    protowire.Number = 4 // and renewTime

	timeSeconds protowire.Number = 1 // of MicroTime
	timeNanos   protowire.Number = 2
)

// storedMagic begins an object that an API server stores as a protocol buffer.
var storedMagic = []byte("k8s\x00")

// released returns a stored lease without its holder and, as client-go leaves it, with a duration of
// one second that begins now, and keeps all other fields. ok is false if it has another holder or is
// in another storage format.
func released(stored []byte, holder string, now time.Time) (value []byte, ok bool) {
	raw, ok := bytes.CutPrefix(stored, storedMagic)
	if !ok {
		return nil, false
	}
	held := false
	raw, err := edit(raw, unknownRaw, func(lease []byte) ([]byte, error) {
		return edit(lease, leaseSpec, func(spec []byte) ([]byte, error) {
			var rest []byte
			err := fields(spec, func(n protowire.Number, whole, content []byte) {
				switch n {
				case specHolder:
					held = string(content) == holder
				case specDuration, specAcquire, specRenew:
				default:
					rest = append(rest, whole...)
				}
			})
			at := protowire.AppendVarint(protowire.AppendTag(nil, timeSeconds, protowire.VarintType), uint64(now.Unix()))
			at = protowire.AppendVarint(protowire.AppendTag(at, timeNanos, protowire.VarintType), uint64(now.Nanosecond()))
			fresh := protowire.AppendString(protowire.AppendTag(nil, specHolder, protowire.BytesType), "")
			fresh = protowire.AppendVarint(protowire.AppendTag(fresh, specDuration, protowire.VarintType), 1)
			fresh = protowire.AppendBytes(protowire.AppendTag(fresh, specAcquire, protowire.BytesType), at)
			fresh = protowire.AppendBytes(protowire.AppendTag(fresh, specRenew, protowire.BytesType), at)
			return append(fresh, rest...), err
		})
	})
	return append(bytes.Clone(storedMagic), raw...), err == nil && held
}

// edit changes the content of a field that a message must have once, and that is a message or bytes.
func edit(message []byte, number protowire.Number, change func([]byte) ([]byte, error)) (edited []byte, err error) {
	var problems []error
	found := 0
	err = fields(message, func(n protowire.Number, whole, content []byte) {
		if n != number {
			edited = append(edited, whole...)
			return
		}
		found++
		changed, err := change(content)
		problems = append(problems, err)
		edited = protowire.AppendBytes(protowire.AppendTag(edited, n, protowire.BytesType), changed)
	})
	if found != 1 {
		problems = append(problems, fmt.Errorf("the Lease has field %d %d times, want once", number, found))
	}
	return edited, errors.Join(append(problems, err)...)
}

// fields calls each for the fields of a message: the whole field, and its content, which is nil if
// it is a number.
func fields(message []byte, each func(n protowire.Number, whole, content []byte)) error {
	for len(message) > 0 {
		n, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		size := protowire.ConsumeFieldValue(n, kind, message[tag:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		var content []byte
		if kind == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(message[tag:])
		}
		each(n, message[:tag+size], content)
		message = message[tag+size:]
	}
	return nil
}
