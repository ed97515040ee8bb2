package judge

func watchReliable() definition {
	const must = "A watch must leave no change out"
	return definition{Doc{
		Name:      "watch-reliable",
		Invariant: "HA-INV-005",
		Lasting:   true,
		Guarantee: "A watch shows every change of what it watches, from the version at which it begins to the last version that it shows or gives in a bookmark.",
		Source:    sourceAPI + "; " + sourceEtcd + " (reliable)",
	}, func(m *matter) finding {
		return m.watches(must, "watch", every, func(s *stream) []breach {
			var breaches []breach
			if !s.watch.Initial {
				breaches = s.begins()
			}
			if g := s.findGap(); g != nil {
				breaches = append(breaches, s.gapBreach(g, ""))
			}
			return breaches
		})
	}}
}
