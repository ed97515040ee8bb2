package facts

import (
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Response returns, as a read, what the successful response to a write of a register showed, if
// that was something else than the register; nil otherwise. Whether the write took effect is
// unknown.
func Response(op record.Op) *record.Op {
	if !IsRegister(op) || !IsWrite(op.Type) || op.Outcome != record.Unknown ||
		!strings.HasPrefix(op.Error, "status 2") || !strings.Contains(op.Error, ", but no ConfigMap "+op.Key+": ") {
		return nil
	}
	return &record.Op{Client: op.Client, Entrance: op.Entrance, API: op.API, Type: record.OpGet, Key: op.Key, Collection: op.Collection, Purpose: text.PurposeResponse,
		Found: true, Value: record.OtherObject + op.Error, Call: op.Call, Return: op.Return, Outcome: record.OK}
}
