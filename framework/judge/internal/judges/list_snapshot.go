package judges

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var listSnapshot = Definition{Doc{
	Name:      "list-snapshot",
	Invariant: "HA-INV-004",
	Lasting:   true,
	Guarantee: "The pages of a list are one snapshot: they give one version, and together they have each key of its state once, in the order of the keys.",
	Source:    "KEP-365 (paginated lists); Kubernetes API concepts (retrieving large results sets in chunks)",
}, judgeListSnapshot}

func judgeListSnapshot(m *facts.Case) Finding {
	const must = "The pages of a list must be one snapshot"
	var breaches []facts.Breach
	judged, pages := 0, 0
	for _, l := range m.Collections().Lists {
		n := 0
		for _, p := range l.Pages {
			if p.Revision != "" {
				n++
			}
		}
		if n < 2 || l.Version() == 0 {
			continue
		}
		judged++
		pages += n
		breaches = append(breaches, wrongPages(l)...)
	}
	if judged == 0 {
		return notApplicable("The record has no list of a collection in more than one page.")
	}
	of := fmt.Sprintf("%d lists, %d pages", judged, pages)
	return conclude(must, "", of, breaches)
}

// wrongPages finds why a paged list is not a snapshot. A list that broke off is checked up to
// there.
func wrongPages(l facts.Listing) []facts.Breach {
	for i, p := range l.Pages {
		if first := l.Pages[0].Revision; l.API == facts.APIKubernetes && p.Revision != "" && p.Revision != first {
			return l.Breach(fmt.Sprintf("gave version %s on page 1 and %s on page %d", first, p.Revision, i+1))
		}
	}
	last := ""
	if l.Outcome != record.OK {
		if len(l.Items) == 0 {
			return nil
		}
		last = l.Items[len(l.Items)-1].Key
	}
	return l.WrongItems(last)
}
