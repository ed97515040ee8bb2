package judge

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// listDamages are those of lists.
var listDamages = []damage{
	{name: "a list lacks an object", must: "list-semantics", may: []string{"list-snapshot"}, do: func(b *broken) bool { return b.dropItem(func(facts.Listing) bool { return true }) }},
	{name: "a paged list lacks an object", must: "list-snapshot", may: []string{"list-semantics"}, do: func(b *broken) bool {
		return b.dropItem(func(l facts.Listing) bool { return len(l.Pages) > 1 })
	}},
	{name: "a list has an object of another version", must: "list-semantics", may: []string{"list-snapshot"}, do: func(b *broken) bool {
		for _, l := range b.c.Lists {
			for i, item := range l.Items {
				line := l.Timeline.Lines[item.Key]
				c, known := line.At(l.Version())
				if !known || c == nil || c.By.Op.Outcome != record.OK || l.Outcome != record.OK {
					continue
				}
				if j, ok := line.Find(c.Revision); ok && j > 0 && line.Changes[j-1].Present && line.Changes[j-1].By.Op.Outcome == record.OK {
					l.Items[i].Value, l.Items[i].Group, l.Items[i].Revision = line.Changes[j-1].Value, line.Changes[j-1].Group, fmt.Sprint(line.Changes[j-1].Revision)
					return true
				}
			}
		}
		return false
	}},
	{name: "a list from the past", must: "list-semantics", do: func(b *broken) bool {
		list, l, ok := b.listSpot(func(l facts.Listing) bool {
			return l.Match == record.MatchUnset && len(l.Pages) == 1 && l.Timeline.NewestBefore(l.Call) != nil
		})
		if ok {
			past := l.Timeline.NewestBefore(l.Call).Revision - 1
			list.Pages[0].Revision, list.Items = fmt.Sprint(past), b.items(facts.Scope{Group: l.Group}, past)
		}
		return ok
	}},
	{name: "a list older than asked for", must: "list-semantics", do: func(b *broken) bool {
		list, l, ok := b.listSpot(func(l facts.Listing) bool { return l.Match == record.MatchNotOlderThan && len(l.Pages) == 1 })
		if ok {
			past := record.Number(l.Asked) - 1
			list.Pages[0].Revision, list.Items = fmt.Sprint(past), b.items(facts.Scope{Group: l.Group}, past)
		}
		return ok
	}},
	{name: "a list newer than the version asked for", api: facts.APIKubernetes, must: "list-semantics", do: func(b *broken) bool {
		list, l, ok := b.listSpot(func(l facts.Listing) bool {
			return l.Match == record.MatchExact && len(l.Pages) == 1 && record.Number(l.Asked) < b.rev
		})
		if ok {
			list.Pages[0].Revision, list.Items = fmt.Sprint(b.rev), b.items(facts.Scope{Group: l.Group}, b.rev)
		}
		return ok
	}},
	{name: "a page from another version", api: facts.APIKubernetes, must: "list-snapshot", do: func(b *broken) bool {
		list, _, ok := b.listSpot(func(l facts.Listing) bool { return len(l.Pages) > 1 })
		if ok {
			p := &list.Pages[1+b.IntN(len(list.Pages)-1)]
			p.Revision = fmt.Sprint(record.Number(p.Revision) + 1)
		}
		return ok
	}},
	{name: "an object on two pages", must: "list-snapshot", may: []string{"list-semantics"}, do: func(b *broken) bool {
		list, _, ok := b.listSpot(func(l facts.Listing) bool { return len(l.Pages) > 1 })
		if ok {
			at := list.Pages[0].Items
			list.Items = slices.Insert(slices.Clone(list.Items), at, list.Items[at-1])
			list.Pages[1].Items++
		}
		return ok
	}},
}

func (b *broken) dropItem(fits func(facts.Listing) bool) bool {
	list, l, ok := b.listSpot(func(l facts.Listing) bool { return len(l.Items) > 0 && fits(l) })
	if !ok {
		return false
	}
	i := b.IntN(len(list.Items))
	c, known := l.Timeline.Lines[list.Items[i].Key].At(l.Version())
	if !known || c.By.Op.Outcome != record.OK {
		return false
	}
	list.Items = slices.Delete(slices.Clone(list.Items), i, i+1)
	return true
}
