//! What the list of releases and the page of one must say, by what the API says, and what they do say.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::read::{fields, page, said, text_of};
use crate::world::{STAGE, World, settled, strategy};

pub type Fields = BTreeMap<String, String>;

/// Everything between the opening of an element, from within its tag on, and the first mark that ends it.
fn within<'a>(html: &'a str, opening: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = html.split_once(opening)?;
    rest.split_once(end).map(|(inside, _)| inside)
}

/// Pieces that have a key.
fn keyed(html: &str) -> impl Iterator<Item = (String, &str)> {
    let pieces = html.split(" data-key=\"").skip(1).filter_map(|piece| piece.split_once("\">"));
    pieces.map(|(key, piece)| (text_of(key), piece))
}

fn short(time: &Value) -> Option<String> {
    Some(format!("{} UTC", time.as_str()?.get(..19)?.replace('T', " ")))
}

fn joined(all: &Value) -> String {
    said(&json!(
        all.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect::<Vec<_>>().join(", ")
    ))
}

/// `2 succeeded`, for those who take part: what the API calls them, and people.
fn pieces(release: &Value) -> Vec<(&'static str, u64)> {
    let (counted, names): (&Value, &[_]) = if release["agents"].is_object() {
        let agents = &release["agents"];
        (
            agents,
            &[
                ("succeeded", "succeeded"),
                ("untested", "untested"),
                ("failed", "failed"),
                ("timed_out", "timed out"),
                ("unreachable", "unreachable"),
            ],
        )
    } else {
        (
            &release["counts"],
            &[
                ("succeeded", "succeeded"),
                ("untested", "untested"),
                ("undone", "taken back"),
                ("failed", "failed"),
                ("timed_out", "timed out"),
                ("unreachable", "unreachable"),
                ("lost", "lost"),
                ("excluded", "left out"),
                ("doing", "at work"),
                ("todo", "to come"),
            ],
        )
    };
    let number = |key: &str| counted[key].as_u64().unwrap();
    let mut all: Vec<_> = names.iter().map(|(key, words)| (*words, number(key))).collect();
    let counted_sum: u64 = all.iter().map(|(_, number)| number).sum();
    let rest = number("participants").saturating_sub(counted_sum);
    let unproven = counted["unconfirmed"].as_u64().unwrap_or(0).min(rest);
    match release["state"].as_str().unwrap() {
        "RollingBack" => all.push(("going back", rest)),
        "RolledBack" | "RolledBackUnproven" => {
            all.extend([("taken back", rest - unproven), ("not proven to be back", unproven)]);
        }
        "Aborted" => all.push(("ended early", rest)),
        "Planned" | "Running" | "Paused" | "AwaitingApproval" => all.push(("not over", rest)),
        _ => all.push(("left out", rest)),
    }
    all.retain(|(_, number)| *number > 0);
    all
}

fn progress(release: &Value) -> String {
    let of = |counted: &Value| counted["participants"].as_u64();
    let all = of(&release["agents"]).or(of(&release["counts"])).unwrap();
    let pieces = pieces(release);
    if pieces.is_empty() {
        return if all == 0 { "nobody yet".to_owned() } else { format!("none of {all}") };
    }
    let parts: Vec<_> = pieces.iter().map(|(words, number)| format!("{number} {words}")).collect();
    format!("{}, of {all}", parts.join(", "))
}

fn put(fields: &mut Fields, name: impl Into<String>, value: Option<String>) {
    if let Some(value) = value {
        fields.insert(name.into(), settled(&value));
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(|_| said(value)).filter(|text| !text.is_empty())
}

/// What both the list and the page of a release must say.
fn common(release: &Value) -> Fields {
    let mut all = Fields::new();
    put(&mut all, "state", text(&release["state"]));
    put(&mut all, "name", text(&release["name"]).filter(|_| release["name"] != release["id"]));
    put(&mut all, "functions", Some(joined(&release["functions"])));
    put(&mut all, "submitted", short(&release["submitted"]));
    all
}

/// What a line of the list must say.
pub fn line_wanted(line: &Value) -> Fields {
    let mut all = common(line);
    let now = if line["waits_for"].is_string() { &line["waits_for"] } else { &line["reason"] };
    put(&mut all, "now", Some(said(now)));
    put(&mut all, "since", short(&line["since"]).map(|since| format!("since {since}")));
    put(&mut all, "progress", Some(progress(line)));
    for (key, word) in [("wave", "wave"), ("level", "step")] {
        let open =
            line[key].is_object().then(|| format!("{word} {} of {}", line[key]["open"], line[key]["of"]));
        put(&mut all, key, open);
    }
    all
}

fn state_in(html: &str) -> Option<String> {
    Some(within(html, " data-state=\"", "\"")?.to_owned())
}

pub fn line_shown(html: &str, id: &str) -> Fields {
    let row = within(html, &format!("<tr data-key=\"{id}\">"), "</tr>").unwrap();
    let mut all: Fields = fields(row).into_iter().map(|(key, value)| (key, settled(&value))).collect();
    put(&mut all, "state", state_in(row));
    all
}

/// `5 children: 2 done, 3 waiting`.
fn counted(children: &Value) -> String {
    let parts = children.as_object().unwrap().iter();
    parts
        .map(|(stands, number)| format!("{number} {}", stands.replace('_', " ")))
        .collect::<Vec<_>>()
        .join(", ")
}

fn waves_wanted(all: &mut Fields, release: &Value) {
    for wave in release["waves"].as_array().into_iter().flatten() {
        let key = |field: &str| format!("wave {}: {field}", wave["number"]);
        let number: u64 = wave["children"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        let word = if number == 1 { "child" } else { "children" };
        put(all, key("name"), text(&wave["name"]));
        put(
            all,
            key("open"),
            Some(if wave["open"] == true { "its turn has come" } else { "comes later" }.to_owned()),
        );
        let children = format!("{number} {word}: {}", counted(&wave["children"]));
        put(all, key("children"), Some(children.trim_end().to_owned()));
        put(all, key("waits_for"), text(&wave["waits_for"]));
    }
}

fn limits_wanted(all: &mut Fields, release: &Value) {
    for limit in release["limits"].as_array().into_iter().flatten() {
        let number = |key: &str| limit[key].as_u64().unwrap();
        // What lets all of them end like this is no limit.
        if limit["limit"] == "100%" {
            continue;
        }
        let name = limit["name"].as_str().unwrap();
        let what = name.trim_start_matches("max_").replace('_', " ");
        let used = number("count").saturating_sub(number("accepted"));
        let near = match number("most").checked_sub(used) {
            None => "the limit is passed".to_owned(),
            Some(0) => "one more passes the limit".to_owned(),
            Some(left) => format!("{left} more are borne"),
        };
        let accepted = match number("accepted") {
            0 => String::new(),
            accepted => format!(", {accepted} accepted before"),
        };
        let written = said(&limit["limit"]);
        let said =
            format!("{} {what} of at most {} ({written}){accepted}: {near}", number("count"), number("most"));
        put(all, format!("limit {name}"), Some(said));
    }
}

fn stages_wanted(all: &mut Fields, release: &Value) {
    for stage in release["stages"].as_array().unwrap() {
        let key = |field: &str| format!("stage {}: {field}", said(&stage["name"]));
        let inside = stage["children"].as_object().unwrap().iter();
        let inside = inside.filter(|(_, number)| **number != json!(0));
        let inside: Vec<_> = inside.map(|(status, number)| format!("{number} {status}")).collect();
        put(all, key("children"), Some(if inside.is_empty() { "–".to_owned() } else { inside.join(", ") }));
        put(all, key("waits_for"), text(&stage["waits_for"]).or_else(|| Some("–".to_owned())));
        put(all, key("shares"), Some(format!("{} %", stage["new_traffic"])));
        let skipped = if stage["skipped"] == true { " skipped" } else { "" };
        let failed = if stage["failed"] == true { " failed" } else { "" };
        let kind = match stage["kind"].as_str().unwrap() {
            "A/B" => "by what was measured",
            "WaitForSignal" => "by a signal",
            other => other,
        };
        let head = format!("{}{skipped}{failed} {}", said(&stage["name"]), said(&stage["function"]));
        put(all, key("head"), Some(head.trim_end().to_owned()));
        put(all, key("ends"), Some(kind.to_owned()));
    }
}

/// A number of the API as machines find it on the page.
fn exact(value: &Value) -> String {
    value.as_f64().map_or_else(|| "–".to_owned(), |value| value.to_string())
}

fn analyses_wanted(all: &mut Fields, release: &Value) {
    for analysis in release["analyses"].as_array().into_iter().flatten() {
        let of = said(&analysis["of"]);
        put(all, format!("{of}: stands"), text(&analysis["state"]));
        put(all, format!("{of}: why"), text(&analysis["why"]));
        put(all, format!("{of}: run"), Some(run_of(analysis)));
        for metric in analysis["metrics"].as_array().unwrap() {
            let key = |field: &str| format!("{of}, {}: {field}", said(&metric["name"]));
            put(all, key("verdict"), text(&metric["verdict"]));
            put(all, key("found"), Some(said(&metric["found"])));
            let evidence = &metric["evidence"];
            for (name, value) in evidence.as_object().into_iter().flatten() {
                let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                put(all, key(&format!("evidence {name}")), Some(said(&json!(plain))));
            }
            let calls = |side: &str| evidence[side]["count"].as_u64().unwrap_or_default();
            if calls("baseline") + calls("canary") == 0 {
                continue;
            }
            for part in ["count", "events", "mean", "p50", "p95", "p99", "rate"] {
                let (base, new) = (&evidence["baseline"][part], &evidence["canary"][part]);
                if base.is_number() || new.is_number() {
                    put(all, key(&format!("base.{part}")), Some(exact(base)));
                    put(all, key(&format!("new.{part}")), Some(exact(new)));
                }
            }
            if evidence["effect"].is_object() {
                for part in ["estimate", "low", "high"] {
                    put(all, key(part), Some(exact(&evidence["effect"][part])));
                }
            }
            if metric["limits"].is_object() {
                put(all, key("at_least"), Some(exact(&metric["limits"]["at_least"])));
                put(all, key("at_most"), Some(exact(&metric["limits"]["at_most"])));
                let floor = metric["limits"]["floor"].is_number().then(|| exact(&metric["limits"]["floor"]));
                put(all, key("floor"), floor);
            }
        }
    }
}

/// How far a run of an analysis is.
fn run_of(analysis: &Value) -> String {
    let reporting =
        text(&analysis["reporting"]).map_or_else(String::new, |reporting| format!(" {reporting}"));
    if analysis["run"] == 0 {
        return format!("It has not begun.{reporting}");
    }
    let word = if analysis["looks"] == 1 { "look" } else { "looks" };
    let (run, runs, looks) = (&analysis["run"], &analysis["runs"], &analysis["looks"]);
    format!("Run {run} of {runs}, {looks} {word} at the data.{reporting}")
}

/// Who takes part, who has not proven to be back, and who comes last.
fn participants_wanted(release: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let all = release["agents"]["participants"]
        .as_u64()
        .unwrap_or_else(|| number(&release["counts"]["participants"]));
    let mut text = format!("{all} {}", if all == 1 { "takes part" } else { "take part" });
    let words = |number: u64, one: &str, many: &str| match number {
        0 => String::new(),
        1 => format!(". 1 {one}"),
        number => format!(". {number} {many}"),
    };
    let unproven = ("has not proven that it runs", "have not proven that they run");
    let unproven = words(number(&release["unconfirmed"]), unproven.0, unproven.1);
    if !unproven.is_empty() {
        text += &format!("{unproven} the base version again");
    }
    let last =
        words(number(&release["left_out"]), "comes last, because it was", "come last, because they were");
    if !last.is_empty() {
        text += &format!("{last} silent");
    }
    text + "."
}

/// What the page of a release must say.
fn wanted(release: &Value) -> Fields {
    let mut all = common(release);
    put(&mut all, "now", text(&release["waits_for"]).or_else(|| text(&release["reason"])));
    put(&mut all, "started", short(&release["started"]).or_else(|| Some("not yet".to_owned())));
    put(&mut all, "ended", short(&release["ended"]));
    let attempt = release["attempt"].as_u64().filter(|attempt| *attempt > 1);
    put(&mut all, "attempt", attempt.map(|attempt| attempt.to_string()));
    let why = &release["why"];
    put(&mut all, "why.text", text(&why["text"]));
    put(&mut all, "why.child", text(&why["child"]));
    put(&mut all, "why.version", text(&why["version"]));
    put(&mut all, "why.numbers", text(&why["numbers"]));
    let note = text(&why["note"]).map_or_else(String::new, |note| format!(": {note}"));
    put(&mut all, "why.by", text(&why["by"]).map(|by| format!("by {by}{note}")));
    put(&mut all, "participants", Some(participants_wanted(release)));
    for (words, number) in pieces(release) {
        put(&mut all, format!("piece.{words}"), Some(format!("{number} {words}")));
    }
    for (why, number) in release["excluded"].as_object().unwrap() {
        let number = Some(number).filter(|number| **number != json!(0));
        put(&mut all, format!("excluded.{why}"), number.map(Value::to_string));
    }
    waves_wanted(&mut all, release);
    limits_wanted(&mut all, release);
    stages_wanted(&mut all, release);
    analyses_wanted(&mut all, release);
    all
}

/// The named fields of a piece. Numbers are those that machines find.
fn read(html: &str) -> Fields {
    let text = fields(html).into_iter().map(|(key, value)| {
        let opening = format!(" data-field=\"{key}\"><data value=\"");
        (key, within(html, &opening, "\"").map_or_else(|| settled(&value), str::to_owned))
    });
    text.collect()
}

/// The text of an element, from within its tag on.
fn inside(html: &str) -> String {
    text_of(html.split_once('>').map_or("", |(_, inside)| inside))
}

/// The evidence of a metric, name by name, as it stands below its drawing.
fn evidence_of(piece: &str) -> impl Iterator<Item = (String, String)> {
    let list = within(piece, "<summary>What that rests on</summary>", "</dl>").unwrap_or_default();
    let pairs = list.split("<dt>").skip(1).filter_map(|pair| pair.split_once("</dt><dd>"));
    pairs.map(|(name, value)| (text_of(name), text_of(value.split("</dd>").next().unwrap_or_default())))
}

/// What the page of a release says, read from its HTML.
pub fn shown(html: &str) -> Fields {
    let section = |id: &str| within(html, &format!("<section id=\"{id}\""), "</section>").unwrap_or_default();
    let heading = within(html, "<header class=\"release\">", "</header>").unwrap();
    let mut all = read(heading);
    put(&mut all, "state", state_in(heading));
    for id in ["progress", "excluded"] {
        all.extend(read(section(id)));
    }
    let participants = within(section("progress"), "<p class=\"hint\">", "</p>").map(text_of);
    put(&mut all, "participants", participants);
    for (key, wave) in keyed(section("waves")) {
        let name = within(wave, "<strong>", "</strong>").map(text_of);
        put(&mut all, format!("wave {key}: name"), name);
        all.extend(read(wave).into_iter().map(|(field, value)| (format!("wave {key}: {field}"), value)));
    }
    for (key, limit) in keyed(section("limits")) {
        all.extend(read(limit).into_values().map(|value| (format!("limit {key}"), value)));
    }
    for (key, stage) in keyed(section("stages")) {
        let of = |field: &str| format!("stage {key}: {field}");
        all.extend(read(stage).into_iter().map(|(field, value)| (of(&field), value)));
        put(&mut all, of("head"), within(stage, "<th scope=\"row\"", "</th>").map(inside));
        put(&mut all, of("ends"), within(stage, "</th><td", "</td>").map(inside));
    }
    let mut of = String::new();
    for article in section("judged").split("<article ").skip(1) {
        for (at, (key, piece)) in keyed(&format!(" {article}")).enumerate() {
            let prefix = if at == 0 {
                of = key;
                of.clone()
            } else {
                format!("{of}, {key}")
            };
            all.extend(read(piece).into_iter().map(|(field, value)| (format!("{prefix}: {field}"), value)));
            if at == 0 {
                put(
                    &mut all,
                    format!("{prefix}: run"),
                    within(piece, "<p class=\"hint\"", "</p>").map(inside),
                );
            }
            for (name, value) in evidence_of(piece) {
                put(&mut all, format!("{prefix}: evidence {name}"), Some(value));
            }
        }
    }
    all
}

/// Each field in which two differ, with both.
pub fn differences(wanted: &Fields, shown: &Fields) -> Vec<String> {
    let keys: BTreeSet<_> = wanted.keys().chain(shown.keys()).collect();
    let differ = keys.into_iter().filter(|key| wanted.get(*key) != shown.get(*key));
    differ.map(|key| format!("{key}: API {:?}, page {:?}", wanted.get(key), shown.get(key))).collect()
}

/// The API's answer and the page that was made while it was the same, but for seconds that pass.
pub async fn both(world: &World, api: &str, ui: &str) -> (Value, String) {
    let read = async || world.get(api).await.ok().json();
    let mut before = read().await;
    for _ in 0..20 {
        let html = page(world, ui).await;
        let after = read().await;
        if settled(&before.to_string()) == settled(&after.to_string()) {
            return (after, html);
        }
        before = after;
    }
    panic!("{api} never stood still");
}

/// Where the page of a release differs from the API, and what both were.
pub async fn compared(world: &World, id: &str) -> (Vec<String>, Value, String) {
    let path = format!("/api/v1/releases/{id}");
    let before = world.get(&path).await.ok().json();
    let (release, html) = both(world, &path, &format!("/ui/releases/{id}")).await;
    let mut found = differences(&wanted(&release), &shown(&html));
    if wanted(&before) == wanted(&release) {
        found.extend(wrong_spans(&before["waits_for"], &release["waits_for"], &html));
    }
    (found, release, html)
}

/// Spans of time that a page says and that lie outside of what the API said before and after.
fn wrong_spans(before: &Value, after: &Value, html: &str) -> Option<String> {
    let (Some(before), Some(after)) = (before.as_str(), after.as_str()) else { return None };
    let shown = fields(within(html, "<header class=\"release\">", "</header>")?).remove("now")?;
    let (first, last, spans) = (spans(before), spans(after), spans(&shown));
    let is_between = |at: usize, span: u64| {
        let (one, other) = (first.get(at).copied(), last.get(at).copied());
        one.min(other) <= Some(span) && Some(span) <= one.max(other)
    };
    let wrong =
        spans.len() != last.len() || !spans.iter().enumerate().all(|(at, span)| is_between(at, *span));
    wrong.then(|| format!("time left: API {before:?}, then {after:?}, page {shown:?}"))
}

/// All spans of time in a text, in seconds, in the order in which they stand there: `1h 5m` is one.
pub fn spans(text: &str) -> Vec<u64> {
    let units = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400)];
    let (mut spans, mut goes_on) = (Vec::new(), false);
    for word in text.split(' ') {
        let bare = word.trim_end_matches([',', ';', '.', ':', ')']);
        let unit = units.iter().find(|(unit, _)| bare.ends_with(*unit));
        let number = unit.and_then(|(unit, seconds)| {
            bare.strip_suffix(*unit)?.parse::<u64>().ok().map(|number| number * seconds)
        });
        match (number, spans.last_mut()) {
            (Some(seconds), Some(last)) if goes_on => *last += seconds,
            (Some(seconds), _) => spans.push(seconds),
            (None, _) => {}
        }
        goes_on = number.is_some() && bare == word;
    }
    spans
}

/// Where a page differs from this answer of the API.
pub fn differs(release: &Value, html: &str) -> Vec<String> {
    differences(&wanted(release), &shown(html))
}

/// The list with one field of its form filled in, as a browser sends it: each field under the name that the form has for it.
async fn narrowed(world: &World, field: &str, value: &str) -> String {
    let html = page(world, "/ui/releases").await;
    let form = within(&html, "<form class=\"filters\"", "</form>").unwrap();
    let names = form.split(" name=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let names: Vec<&str> = names.collect();
    assert!(names.contains(&field), "{field} is none of {names:?}");
    let value = super::encoded(value);
    let query =
        names.iter().map(|name| format!("{name}={}", if *name == field { value.as_str() } else { "" }));
    page(world, &format!("/ui/releases?{}", query.collect::<Vec<_>>().join("&"))).await
}

/// The ids of the lines of a list, in their order.
fn listed(html: &str) -> Vec<String> {
    html.split("<tr data-key=\"").skip(1).filter_map(|row| row.split('"').next()).map(str::to_owned).collect()
}

/// The first is at work, the second waits behind it, and the third is over.
async fn three() -> World {
    let world = World::start().await;
    world.child().await;
    let named = |id: &str, name: &str| strategy(id).replacen("name: ", &format!("name: {name} "), 1);
    let paris = "target: {labels: {tier: edge}, area: {type: Polygon, coordinates: [[[2, 48], [3, 48], [3, 49], [2, 49], [2, 48]]]}}\n";
    world.submit(&(named("one", "Zebra") + paris)).await.ok();
    world.submit(&named("two", "Apple").replace("sieve", "greet")).await.ok();
    world.submit(&named("three", "Mango")).await.ok();
    world
}

#[tokio::test]
async fn each_field_of_the_list_narrows_it_down_or_orders_it() {
    let world = three().await;
    let state = async |id: &str| {
        world.get(&format!("/api/v1/releases/{id}")).await.ok().json()["state"].as_str().unwrap().to_owned()
    };
    assert_eq!((state("one").await.as_str(), state("three").await.as_str()), ("NoParticipants", "Running"));
    for (field, value, expected) in [
        ("name", "PPL", "two"),
        ("function", "greet", "two"),
        ("label", "tier:edge", "one"),
        ("area", "52.5,13.4", "three two"),
        ("state", "NoParticipants", "one"),
        ("sort", "submitted", "three two one"),
        ("sort", "-submitted", "one two three"),
        ("sort", "name", "two three one"),
        ("sort", "-name", "one three two"),
    ] {
        let html = narrowed(&world, field, value).await;
        assert_eq!(listed(&html).join(" "), expected, "{field}={value}");
        // It is still there to be changed.
        let selected = if matches!(field, "state" | "sort") { " selected" } else { "" };
        assert!(html.contains(&format!("value=\"{value}\"{selected}")), "{field}={value}: {html}");
    }
    assert!(narrowed(&world, "name", "nobody").await.contains("No release fits these filters."));
    world.stop().await;
}

#[tokio::test]
async fn heads_of_columns_lead_to_their_order_and_back() {
    let world = three().await;
    let head = |html: &str, words: &str| {
        let heads = within(html, "<thead>", "</thead>").unwrap().to_owned();
        let head = heads.split("<th ").find(|head| text_of(&format!("<{head}")).starts_with(words)).unwrap();
        let sorted = within(head, "aria-sort=\"", "\"").unwrap_or("no").to_owned();
        (sorted, within(head, "href=\"", "\"").unwrap_or_default().replace("&amp;", "&"))
    };
    let plain = page(&world, "/ui/releases?state=Running").await;
    assert_eq!(head(&plain, "Submitted").0, "descending");
    assert_eq!(head(&plain, "Now"), ("no".to_owned(), String::new()));
    for (words, first, second) in [
        ("State", "ascending", "descending"),
        ("Release", "ascending", "descending"),
        ("Progress", "ascending", "descending"),
        ("Submitted", "ascending", "descending"),
    ] {
        let (sorted, once) = head(&plain, words);
        assert_eq!(sorted, if words == "Submitted" { "descending" } else { "no" }, "{words}");
        let html = page(&world, &once).await;
        let (sorted, twice) = head(&html, words);
        assert_eq!(sorted, first, "{words}");
        let back = page(&world, &twice).await;
        assert_eq!(head(&back, words).0, second, "{words}");
        // What narrows the list down stays, and one order is the other backwards.
        let backwards: Vec<_> = listed(&back).into_iter().rev().collect();
        assert_eq!((listed(&html).len(), listed(&html)), (2, backwards), "{words}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_list_gets_old_by_itself_while_one_of_its_releases_waits() {
    let world = three().await;
    let ticks =
        async |query: &str| page(&world, &format!("/ui/releases{query}")).await.contains("data-ticks");
    assert_eq!((ticks("").await, ticks("?state=NoParticipants").await), (true, false));
    world.stop().await;
}

/// The links of a section, by what they say.
fn links(html: &str, section: &str) -> Vec<(String, String)> {
    let section = within(html, &format!("<section id=\"{section}\""), "</section>").unwrap_or_default();
    let links = section.split("<a href=\"").skip(1).filter_map(|link| link.split_once("\">"));
    let words = |rest: &str| text_of(rest.split("</a>").next().unwrap());
    links.map(|(href, rest)| (words(rest), href.replace("&amp;", "&"))).collect()
}

#[tokio::test]
async fn each_wave_stage_and_limit_leads_to_the_children_that_it_counts() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    let led = "rollout: {order: waves, waves: [1, 100%], max_failed: 1, on_failure: continue}\n";
    world.submit(&(strategy("a") + led)).await.ok();
    assert_eq!(world.poll(&one).await.1, "a");
    world.fetch(&one, "a").await.ok();
    world.report(&one, "a", STAGE, 5).await.ok();
    let html = page(&world, "/ui/releases/a").await;
    for (section, words, expected) in [
        ("waves", "wave 1 of 2", vec![&one]),
        ("waves", "wave 2 of 2", vec![&two]),
        ("stages", STAGE, vec![&one, &two]),
        ("limits", "1 failed of at most 1", vec![&one]),
    ] {
        let links = links(&html, section);
        let (_, href) =
            links.iter().find(|(said, _)| said == words).unwrap_or_else(|| panic!("{words}: {links:?}"));
        let mut shown = listed(&page(&world, href).await);
        shown.sort();
        let mut expected: Vec<_> = expected.into_iter().cloned().collect();
        expected.sort();
        assert_eq!(shown, expected, "{href}");
    }
    world.stop().await;
}

#[tokio::test]
async fn limits_are_shown_where_there_is_one_wave_only() {
    let world = World::start().await;
    let (one, _) = (world.child().await, world.child().await);
    world
        .submit(&(strategy("a") + "rollout: {order: parallel, max_failed: 1, on_failure: continue}\n"))
        .await
        .ok();
    assert_eq!(world.poll(&one).await.1, "a");
    world.fetch(&one, "a").await.ok();
    world.report(&one, "a", STAGE, 5).await.ok();
    let html = page(&world, "/ui/releases/a").await;
    assert!(!html.contains("<section id=\"waves\""), "{html}");
    let shown = shown(&html);
    assert_eq!(shown["limit max_failed"], "1 failed of at most 1 (1): one more passes the limit");
    world.stop().await;
}
