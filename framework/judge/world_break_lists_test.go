package judge

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// listDamages are those of lists.
var listDamages = []damage{
	{name: "a list lacks an object", must: "list-semantics", may: []string{"list-snapshot"}, do: func(b *broken) bool { return b.dropItem(func(listing) bool { return true }) }},
	{name: "a paged list lacks an object", must: "list-snapshot", may: []string{"list-semantics"}, do: func(b *broken) bool {
		return b.dropItem(func(l listing) bool { return len(l.Pages) > 1 })
	}},
	{name: "a list has an object of another version", must: "list-semantics", may: []string{"list-snapshot"}, do: func(b *broken) bool {
		for _, l := range b.c.lists {
			for i, item := range l.Items {
				line := l.timeline.lines[item.Key]
				c, known := line.at(l.version())
				if !known || c == nil || c.by.op.Outcome != record.OK || l.Outcome != record.OK {
					continue
				}
				if j, ok := line.find(c.revision); ok && j > 0 && line.changes[j-1].present && line.changes[j-1].by.op.Outcome == record.OK {
					l.Items[i].Value, l.Items[i].Group, l.Items[i].Revision = line.changes[j-1].value, line.changes[j-1].group, fmt.Sprint(line.changes[j-1].revision)
					return true
				}
			}
		}
		return false
	}},
	{name: "a list from the past", must: "list-semantics", do: func(b *broken) bool {
		list, l, ok := b.listSpot(func(l listing) bool {
			return l.Match == record.MatchUnset && len(l.Pages) == 1 && l.timeline.newestBefore(l.Call) != nil
		})
		if ok {
			past := l.timeline.newestBefore(l.Call).revision - 1
			list.Pages[0].Revision, list.Items = fmt.Sprint(past), b.items(scope{group: l.Group}, past)
		}
		return ok
	}},
	{name: "a list older than asked for", must: "list-semantics", do: func(b *broken) bool {
		list, l, ok := b.listSpot(func(l listing) bool { return l.Match == record.MatchNotOlderThan && len(l.Pages) == 1 })
		if ok {
			past := number(l.Asked) - 1
			list.Pages[0].Revision, list.Items = fmt.Sprint(past), b.items(scope{group: l.Group}, past)
		}
		return ok
	}},
	{name: "a list newer than the version asked for", api: apiKubernetes, must: "list-semantics", do: func(b *broken) bool {
		list, l, ok := b.listSpot(func(l listing) bool {
			return l.Match == record.MatchExact && len(l.Pages) == 1 && number(l.Asked) < b.rev
		})
		if ok {
			list.Pages[0].Revision, list.Items = fmt.Sprint(b.rev), b.items(scope{group: l.Group}, b.rev)
		}
		return ok
	}},
	{name: "a page from another version", api: apiKubernetes, must: "list-snapshot", do: func(b *broken) bool {
		list, _, ok := b.listSpot(func(l listing) bool { return len(l.Pages) > 1 })
		if ok {
			p := &list.Pages[1+b.IntN(len(list.Pages)-1)]
			p.Revision = fmt.Sprint(number(p.Revision) + 1)
		}
		return ok
	}},
	{name: "an object on two pages", must: "list-snapshot", may: []string{"list-semantics"}, do: func(b *broken) bool {
		list, _, ok := b.listSpot(func(l listing) bool { return len(l.Pages) > 1 })
		if ok {
			at := list.Pages[0].Items
			list.Items = slices.Insert(slices.Clone(list.Items), at, list.Items[at-1])
			list.Pages[1].Items++
		}
		return ok
	}},
}

func (b *broken) dropItem(fits func(listing) bool) bool {
	list, l, ok := b.listSpot(func(l listing) bool { return len(l.Items) > 0 && fits(l) })
	if !ok {
		return false
	}
	i := b.IntN(len(list.Items))
	c, known := l.timeline.lines[list.Items[i].Key].at(l.version())
	if !known || c.by.op.Outcome != record.OK {
		return false
	}
	list.Items = slices.Delete(slices.Clone(list.Items), i, i+1)
	return true
}
