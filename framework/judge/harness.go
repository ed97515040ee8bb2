package judge

func harnessHealth() definition {
	return definition{Doc: Doc{
		Name:      "harness",
		Guarantee: "The harness itself was not starved of computing time where a verdict rests on its measurements.",
		Source:    "A slow machine is never a failure of the cluster",
	}}
}

// harness judges the harness itself, once all else is judged.
func (c *court) harness() finding {
	s := c.strain(0, c.run.EndAt)
	reason := c.distrust()
	if reason != "" {
		return inconclusive("%s", reason)
	}
	starved := s.starves(starvedFloor)
	switch {
	case !s.known:
		return inconclusive("%s", starved)
	case c.excused > 0:
		return inconclusive("harness or machine were overloaded, timers late by up to %s and %.1f tasks for each processor on average, and that cost %d verdicts",
			short(s.late), s.queue, c.excused).took(s.late)
	case starved != "":
		return passed("No verdict was lost by it, but %s.", starved).took(s.late)
	}
	return passed("The harness's timers fired at most %s late (limit %s), and %.1f tasks shared each processor on average.",
		short(s.late), short(starvedFloor), s.queue).took(s.late)
}
