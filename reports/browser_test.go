package reports

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

var screenshots = flag.String("screenshots", "", "directory to write screenshots of the report to")

// browser returns a headless Chromium, or skips the test without one.
func browser(t testing.TB) string {
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("Chromium is not installed: apt-get install chromium-headless-shell")
	return ""
}

// patient lets a page's timers run before the page is printed.
const patient = "--virtual-time-budget=10000"

// browse opens a page with Chromium arguments, and returns its output and its log.
func browse(t testing.TB, page string, args ...string) (out, log string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser(t), append(args, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
		"--user-data-dir="+t.TempDir(), "file://"+page)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	return stdout.String(), stderr.String()
}

// console returns the lines of a log that come from the page: errors, and what its policy
// refused, such as a request to the network.
func console(log string) (lines []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "CONSOLE") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// drive acts as a user of the page, and records what is visible after each step.
const drive = `<script>
addEventListener("load", async () => {
  const seen = {}, rows = () => [...document.querySelectorAll("form.filter + .card tr.row")].filter(r => r.offsetParent !== null).map(r => r.id).join(" ");
  const input = document.querySelector(".filter input"), chip = v => document.querySelector("button[data-verdict='" + v + "']");
  const type = text => { input.value = text; input.dispatchEvent(new Event("input")); };
  const soon = () => new Promise(done => setTimeout(done, 100));
  seen.start = rows();
  type("ep-003"); seen.search = rows() + " " + document.querySelector(".shown").textContent;
  type("elected components"); seen.area = rows();
  type("no such thing"); seen.nothing = rows();
  document.dispatchEvent(new KeyboardEvent("keydown", {key: "/"})); seen.focused = String(document.activeElement === input);
  document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"})); seen.cleared = rows();
  chip("pass").click(); seen.withoutPass = rows();
  chip("pass").click(); seen.withPass = rows();

  const box = document.querySelector(".timeline");
  box.scrollIntoView();
  await soon();
  box.timeline.draw(); await soon(); // if it is not drawn yet: what comes into view follows real time
  const overs = [...box.querySelectorAll(".u-over")], tip = document.querySelector(".tip"), end = box.timeline.end;
  const mouse = (type, share, over = overs[0], y = 1) => {
    const r = over.getBoundingClientRect();
    over.dispatchEvent(new MouseEvent(type, {bubbles: true, movementX: 1, clientX: r.left + r.width * share, clientY: r.top + y}));
  };
  const range = () => box.dataset.range.split(",").map(v => (v / end).toFixed(2)).join(" to ");
  // The second lane below the phases is the fault's; its bar begins at a quarter.
  const fault = 20 + 4 + 24 + 9, pixel = (share, y) => {
    const canvas = box.querySelector("canvas"), o = overs[0].getBoundingClientRect(), c = canvas.getBoundingClientRect(), ratio = canvas.width / c.width;
    return rgb(p => p.drawImage(canvas, -Math.round((o.left - c.left + o.width * share) * ratio), -Math.round((o.top - c.top + y) * ratio)));
  };
  const rgb = draw => { const p = document.createElement("canvas").getContext("2d"); draw(p); return p.getImageData(0, 0, 1, 1).data.slice(0, 3).join(","); };
  const of = name => rgb(p => { p.fillStyle = colour(name); p.fillRect(0, 0, 1, 1); });
  seen.painted = String(pixel(.7, fault) === of("fault") && pixel(.1, fault) === of("rail"));
  seen.violated = String(pixel(25 / 80, 22) === of("fail-bg") && pixel(32 / 80, 22) !== of("fail-bg"));
  // A frame that comes late draws everything again, without the cursor.
  for (let i = 0; i < 5 && tip.hidden; i++) { mouse("mousemove", .5, overs[0], fault); await soon(); }
  seen.hover = String(tip.hidden) + " " + tip.textContent.split("\n")[0] + " at " + box.querySelector(".now").textContent;
  mouse("mousemove", .1, overs[0], fault); await soon();
  seen.nowhere = String(tip.hidden);
  // A cursor in the chart is seen in the lanes, and the value at it beside the chart.
  mouse("mousemove", 21.3 / 80, overs.at(-1), 40); await soon();
  const cursors = [...box.querySelectorAll(".u-cursor-x")].map(e => e.style.transform);
  seen.synchronised = String(cursors.every(c => c === cursors[0] && c !== "")) + " " + box.querySelector(".now").textContent + " " + [...box.querySelectorAll(".value")].map(e => e.textContent || "nothing").join(" ");
  mouse("mousedown", .25); mouse("mousemove", .5); mouse("mouseup", .5); await soon();
  seen.zoomed = range();
  seen.zoomedPaint = String(pixel(.95, fault) === of("fault"));
  const key = async (key, shiftKey = false) => { box.dispatchEvent(new KeyboardEvent("keydown", {key, shiftKey})); await soon(); };
  await key("ArrowRight", true); seen.right = range();
  await key("-"); seen.out = range();
  mouse("dblclick", .5, overs.at(-1)); await soon(); seen.reset = range();
  const shown = () => String(tip.hidden) + " " + tip.textContent.split("\n")[0] + " at " + box.querySelector(".now").textContent;

  // One finger moves the cursor of all plots, and stays where it is put; two zoom; one elsewhere hides it.
  const touch = (type, pointerId, share) => {
    const r = overs[0].getBoundingClientRect();
    overs[0].dispatchEvent(new PointerEvent(type, {bubbles: true, pointerType: "touch", pointerId, clientX: r.left + r.width * share, clientY: r.top + fault}));
  };
  touch("pointerdown", 1, .4); touch("pointermove", 1, .5); await soon();
  seen.touched = shown() + " " + new Set([...box.querySelectorAll(".u-cursor-x")].map(e => e.style.transform)).size;
  touch("pointerdown", 2, .7); touch("pointermove", 2, .9); await soon(); seen.pinched = range();
  touch("pointerup", 2, .9); touch("pointermove", 1, .5); touch("pointerup", 1, .5); touch("pointermove", 1, .9); await soon();
  seen.lifted = range() + " " + shown();
  document.body.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true, pointerType: "touch", pointerId: 3})); await soon();
  seen.elsewhere = tip.hidden + " " + box.querySelector(".now").textContent;
  mouse("dblclick", .5, overs.at(-1)); await soon();

  // The keys move the cursor of all plots, with the tips of the mouse, and what it shows is read aloud.
  mouse("mouseleave", .5, overs.at(-1)); await soon();
  await key("ArrowRight"); seen.keyed = shown();
  await key("ArrowDown");
  for (let i = 0; i < 10; i++) await key("ArrowRight");
  seen.walked = shown() + " " + new Set([...box.querySelectorAll(".u-cursor-x")].map(e => e.style.transform)).size + " " + box.querySelector(".label.current").textContent;
  seen.aloud = document.querySelector(".live[role=status]").textContent.replaceAll("\n", " / ");
  await key("ArrowDown"); seen.component = shown();
  await key("ArrowDown"); seen.leader = shown();
  await key("+"); seen.zoomedAt = range() + " " + shown();
  await key("ArrowLeft"); seen.finer = shown();
  await key("Escape"); seen.left = range() + " " + tip.hidden + " " + box.querySelector(".now").textContent + document.querySelector(".live").textContent;

  // A row opens to the timeline of the scenario that decided, and to the requirement's exhibit.
  const open = async (id, open = true) => { document.querySelector("#" + id + " details.opens").open = open; await soon(); };
  const below = id => document.getElementById(id).nextElementSibling;
  await open("HA-INV-001"); await open("HA-CL-003"); await open("HA-EP-003");
  const pictures = id => [...below(id).querySelectorAll(".timeline")].map(b => b.ariaLabel + " " + (b.querySelectorAll("canvas").length > 0)).join(", ");
  seen.opened = below("HA-INV-001").className + ": " + pictures("HA-INV-001") + "; " + pictures("HA-CL-003");
  seen.across = String([...document.querySelectorAll("tr.more .timeline")].every(b => b.clientWidth > .8 * b.closest(".scroll").clientWidth && b.querySelector("canvas").getBoundingClientRect().right <= innerWidth));
  seen.others = document.querySelector("#HA-EP-003 .finding > .small").textContent + ": " + [...document.querySelectorAll("#HA-EP-003 details details a")].map(a => a.textContent + a.hash + a.checkVisibility()).join(" ");
  await open("HA-INV-001", false); seen.closed = String(below("HA-INV-001").offsetParent === null);
  await open("HA-INV-001"); seen.once = document.querySelectorAll("tr.more").length + " " + String(below("HA-INV-001").offsetParent !== null);
  type("cl-003"); seen.filtered = String(below("HA-INV-001").offsetParent === null && below("HA-CL-003").offsetParent !== null); type("");
  const settings = document.querySelector("header ~ .settings");
  seen.settings = settings.textContent.trim().replace(/\s+/g, " ") + "; " + String(settings.offsetHeight <= 90 && settings.getBoundingClientRect().right <= innerWidth);
  seen.named = [...settings.querySelectorAll("span")].filter(s => s.tabIndex === 0 && s.title).length + " of " + settings.querySelectorAll("span").length;
  // No part of the table is out of view, also with the longest formula of the catalogue.
  document.querySelector("table.cards .formula").textContent = "G + N + L + 4.4P + 2M = 29.4s";
  const tables = [...document.querySelectorAll("table.cards")];
  seen.cut = tables.filter(t => t.parentElement.scrollWidth > t.parentElement.clientWidth).length + " of " + tables.length;
  seen.form = getComputedStyle(tables[0].tHead).display === "none" ? "cards" : "table";
  // Only the option that is wider than a phone takes several lines.
  seen.options = [...document.querySelectorAll("dd .word")].filter(w => w.offsetHeight > 30).length + " of " + document.querySelectorAll("dd .word").length;
  for (const e of document.querySelectorAll(".facts b, .problem, .headline, .exhibit > p, td.finding")) e.append(" https://" + "x".repeat(200));
  seen.wide = String(document.documentElement.scrollWidth <= innerWidth);
  seen.images = String(document.images.length);
  seen.dark = String(matchMedia("(prefers-color-scheme: dark)").matches);
  dispatchEvent(new Event("beforeprint")); await soon();
  const all = [...document.querySelectorAll(".scenario .timeline")];
  seen.printed = all.filter(b => b.querySelector("canvas")).length + " of " + all.length + ", " + Math.max(...[...document.querySelectorAll(".scenario .timeline canvas")].map(c => c.clientWidth)) + " wide";
  document.body.innerHTML = "<pre id=seen>" + Object.entries(seen).map(([k, v]) => k + ": " + v).join("\n") + "</pre>";
});
</script>`

// The report in a browser filters, highlights, zooms, prints, fits any width, logs no error and
// sends no network request.
func TestReportInBrowser(t *testing.T) {
	browser(t)
	dir := t.TempDir()
	run := fixtureRun()
	run.Clusters[1].Arguments = append(run.Clusters[1].Arguments, "kube-apiserver --shutdown-delay-duration=5s --"+strings.Repeat("very-", 40)+"long")
	if err := Write(dir, run, withExhibit(staleRead()), fixtureRecords(), fixtureTitles()); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(dir, HTMLFile)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	driven := filepath.Join(dir, "driven.html")
	if err := os.WriteFile(driven, bytes.Replace(text, []byte("</body>"), []byte(drive+"</body>"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{"390 pixels wide": "cards", "768 pixels wide": "cards", "1000 pixels wide": "cards",
		"1060 pixels wide": "table", "1280 pixels wide": "table", "1920 pixels wide": "table", "dark": "table", "sharp": "table"}
	for name, args := range map[string][]string{
		"390 pixels wide": {"--window-size=390,900"}, "768 pixels wide": {"--window-size=768,900"}, "1000 pixels wide": {"--window-size=1000,900"},
		"1060 pixels wide": {"--window-size=1060,900"}, "1280 pixels wide": {"--window-size=1280,900"}, "1920 pixels wide": {"--window-size=1920,900"},
		"dark":  {"--window-size=1280,900", "--blink-settings=preferredColorScheme=0"},
		"sharp": {"--window-size=1280,900", "--force-device-scale-factor=2"},
	} {
		out, log := browse(t, driven, append(args, patient, "--dump-dom")...)
		if lines := console(log); len(lines) > 0 {
			t.Errorf("%s: the console has %q", name, lines)
		}
		seen := map[string]string{}
		if m := regexp.MustCompile(`(?s)<pre id="seen">(.*?)</pre>`).FindStringSubmatch(out); m != nil {
			for line := range strings.Lines(html.UnescapeString(m[1])) {
				key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				seen[key] = value
			}
		}
		all := len(strings.Fields(seen["start"]))
		for key, ok := range map[string]bool{
			"start":        all == len(New(fixtureRun(), fixtureResults(), nil).Requirements),
			"search":       strings.HasPrefix(seen["search"], "HA-EP-003 1 of "),
			"area":         seen["area"] == "HA-LE-002",
			"nothing":      seen["nothing"] == "",
			"focused":      seen["focused"] == "true",
			"cleared":      seen["cleared"] == seen["start"],
			"withoutPass":  len(strings.Fields(seen["withoutPass"])) < all && !strings.Contains(seen["withoutPass"], "HA-EP-003"),
			"withPass":     seen["withPass"] == seen["start"],
			"painted":      seen["painted"] == "true",
			"violated":     seen["violated"] == "true",
			"hover":        regexp.MustCompile(`^false kill kube-apiserver on node-2 at (39|40)\.\d\ds$`).MatchString(seen["hover"]),
			"nowhere":      seen["nowhere"] == "true",
			"synchronised": regexp.MustCompile(`^true 21\.\d\ds \d+(\.\d)?ms \d [34]\d(\.\d)?ms$`).MatchString(seen["synchronised"]),
			"zoomed":       seen["zoomed"] == "0.25 to 0.50",
			"zoomedPaint":  seen["zoomedPaint"] == "true",
			"right":        seen["right"] == "0.31 to 0.56",
			"out":          seen["out"] == "0.19 to 0.69",
			"reset":        seen["reset"] == "0.00 to 1.00",
			"touched":      regexp.MustCompile(`^false kill kube-apiserver on node-2 at (39|40)\.\d\ds 1$`).MatchString(seen["touched"]),
			"pinched":      seen["pinched"] == "0.25 to 0.75",
			"lifted":       regexp.MustCompile(`^0\.25 to 0\.75 false kill kube-apiserver on node-2 at (39|40)\.\d\ds$`).MatchString(seen["lifted"]),
			"elsewhere":    seen["elsewhere"] == "true",
			"keyed":        seen["keyed"] == "false phase fault at 40.00s",
			"walked":       seen["walked"] == "false kill kube-apiserver on node-2 at 48.00s 1 kill-api-server",
			"aloud":        regexp.MustCompile(`^48\.00s / kill-api-server: kill kube-apiserver on node-2 / 20\.00s to .* / Latency of requests: \d`).MatchString(seen["aloud"]),
			"component":    seen["component"] == "false kube-apiserver on node-2: down signal: killed at 48.00s",
			"leader":       seen["leader"] == "false etcd leader: node-1, term 2 at 48.00s",
			"zoomedAt":     seen["zoomedAt"] == "0.35 to 0.85 false etcd leader: node-1, term 2 at 48.00s",
			"finer":        seen["finer"] == "false etcd leader: node-1, term 2 at 47.60s",
			"left":         seen["left"] == "0.00 to 1.00 true",
			"opened":       seen["opened"] == "more fail: Timeline of api-server-killed true, No order explains these 4 operations on r1 true; Timeline of api-server-killed true",
			"across":       seen["across"] == "true",
			"others":       seen["others"] == "decided by api-server-killed, of 2 scenarios: another-killed#scenario-another-killedfalse",
			"closed":       seen["closed"] == "true",
			"once":         seen["once"] == "3 true",
			"filtered":     seen["filtered"] == "true",
			"settings":     seen["settings"] == "Settings L = 15s R = 10s P = 2s T = 15s I = 10s E = 1s or 3s H = 2s M = 2s G = 50s N = 5s A = 1m00s; true",
			"named":        seen["named"] == "11 of 11",
			"cut":          seen["cut"] == "0 of 2",
			"form":         seen["form"] == forms[name],
			"wide":         seen["wide"] == "true",
			"options":      regexp.MustCompile(`^[01] of [1-9]`).MatchString(seen["options"]),
			"images":       seen["images"] == "0",
			"dark":         seen["dark"] == fmt.Sprint(name == "dark"),
			"printed":      seen["printed"] == "3 of 3, 660 wide",
		} {
			if !ok {
				t.Errorf("%s: %s is %q of %q", name, key, seen[key], seen["start"])
			}
		}
	}
	pdf := filepath.Join(dir, "report.pdf")
	if _, log := browse(t, page, patient, "--print-to-pdf="+pdf); len(console(log)) > 0 {
		t.Errorf("printed: the console has %q", console(log))
	}
	// Each timeline is one image for the lanes and one per chart.
	if text, err := os.ReadFile(pdf); err != nil || bytes.Count(text, []byte("/Subtype /Image")) < 5 {
		t.Errorf("%v; the printed report has %d pictures, want those of 3 timelines", err, bytes.Count(text, []byte("/Subtype /Image")))
	}
	if *screenshots == "" {
		return
	}
	// Parts of the page, by the name of the screenshot.
	for name, added := range map[string]string{
		"timeline": "<style>main { padding-bottom: 0; } main > :not(.legend, .help, #scenario-api-server-killed), .scenario > details:not(.exhibit) { display: none; }</style><script>for (const t of timelines) t.draw();</script>",
		"dark":     `<script>document.querySelector("#HA-CL-003 details.opens").open = true;</script>`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".html"), append(bytes.Clone(text), added...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, args := range map[string][]string{
		"wide": {page, "--window-size=1280,1031"}, "phone": {page, "--window-size=390,978"},
		"dark":     {filepath.Join(dir, "dark.html"), "--window-size=1280,1478", "--blink-settings=preferredColorScheme=0"},
		"timeline": {filepath.Join(dir, "timeline.html"), "--window-size=1280,1448"},
	} {
		file, err := filepath.Abs(filepath.Join(*screenshots, "report-"+name+".png"))
		if err != nil {
			t.Fatal(err)
		}
		browse(t, args[0], append(args[1:], patient, "--screenshot="+file)...)
	}
}

// longReport writes a report on a million observations, with a script added to it, and returns the
// file and its size.
func longReport(t testing.TB, script string) (file string, size int) {
	records := map[string]*record.Run{}
	observations := 0
	for i := range 5 {
		name := fmt.Sprintf("long-%d", i)
		records[name] = longRecord(name, 200_000)
		observations += len(records[name].Probes) + len(records[name].Ops)
	}
	if observations < 1_000_000 {
		t.Fatalf("the records have %d observations, want a million", observations)
	}
	page, err := renderHTML(input{New(fixtureRun(), nil, nil), records, ""})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), HTMLFile)
	if err := os.WriteFile(file, bytes.Replace(page, []byte("</body>"), []byte("<script>"+script+"</script></body>"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	return file, len(page)
}

// A report on a million observations opens, is drawn, zooms and follows the keyboard without an
// error. BenchmarkOpen measures how long it takes.
func TestMillionObservationsInBrowser(t *testing.T) {
	browser(t)
	file, size := longReport(t, `
addEventListener("load", async () => {
  const soon = () => new Promise(done => setTimeout(done, 100)), first = timelines[0], seen = [];
  for (const t of timelines) t.draw();
  await soon();
  const painted = c => c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some(v => v > 0);
  seen.push(timelines.map(t => [...t.box.querySelectorAll("canvas")].filter(painted).length).join(" "));
  first.zoom(first.end / 4, first.end / 2); await soon();
  seen.push(first.box.dataset.range.split(",").map(v => (v / first.end).toFixed(2)).join(" to "));
  first.box.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"})); await soon();
  seen.push(document.querySelector(".live").textContent.split("\n").filter(line => /^(Latency|Requests)/.test(line)).length);
  document.body.innerHTML = "<pre id=seen>" + seen.join("; ") + "</pre>";
});`)
	t.Logf("%.1f MB", float64(size)/1e6)
	if size > 5<<20 {
		t.Errorf("report.html has %d bytes for 5 long records, want at most 5 MiB", size)
	}
	out, log := browse(t, file, "--window-size=1280,900", patient, "--dump-dom")
	if lines := console(log); len(lines) > 0 {
		t.Errorf("the console has %q", lines)
	}
	// Each has a plot of lanes, and charts of latency, of errors and of the harness.
	if want := `<pre id="seen">4 4 4 4 4; 0.25 to 0.50; 2</pre>`; !strings.Contains(out, want) {
		t.Errorf("want %s in the page, which ends in %q", want, out[max(0, len(out)-300):])
	}
}

// A report on a million observations opens, including its first timeline, in under 3 seconds.
func BenchmarkOpen(b *testing.B) {
	browser(b)
	file, size := longReport(b, `
addEventListener("load", () => {
  for (const t of timelines) if (t.box.getBoundingClientRect().top < innerHeight + 800) t.draw();
  queueMicrotask(() => { // uPlot paints in one
    for (const c of document.querySelectorAll(".timeline canvas")) c.getContext("2d").getImageData(0, 0, 1, 1);
    console.log("opened in " + performance.now() + " ms, " + document.querySelectorAll(".timeline canvas").length + " plots");
  });
});`)
	for b.Loop() {
		_, log := browse(b, file, "--window-size=1280,900", "--dump-dom")
		m := regexp.MustCompile(`opened in ([0-9.]+) ms, [1-9]`).FindStringSubmatch(log)
		if m == nil {
			b.Fatalf("the report did not open:\n%s", log)
		}
		took, err := time.ParseDuration(m[1] + "ms")
		if err != nil {
			b.Fatal(err)
		}
		if took > 3*time.Second {
			b.Errorf("opened in %v, want 3s at most", took)
		}
		b.ReportMetric(float64(took.Milliseconds()), "ms/open")
		b.ReportMetric(float64(size)/1e6, "MB/page")
	}
}
