//! Maps: without scripts they say what the API says, with them children are drawn and followed.

use std::collections::HashSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{StreamExt as _, stream};
use language::render::ROLLOUT_STAGE;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    browser::{Graphics, Key, Mode, Page, browse, browse_with},
    deadline::DEADLINE,
    faults,
    states::over_waves,
    tree::LOOK,
    world::{STAGE, World, strategy},
};

/// A square of one degree.
fn square(west: f64, south: f64) -> Value {
    let (east, north) = (west + 1.0, south + 1.0);
    let ring = [[west, south], [east, south], [east, north], [west, north], [west, south]];
    json!({"type": "Polygon", "coordinates": [ring]})
}

/// A child with its own rectangle.
async fn child_at(world: &World, west: f64, south: f64) -> String {
    child_of(world, &square(west, south)).await
}

async fn child_of(world: &World, area: &Value) -> String {
    let id = polls(world, "", area).await["id"].as_str().unwrap().to_owned();
    polls(world, &id, area).await;
    id
}

/// A child calls, and says where it is.
async fn polls(world: &World, id: &str, area: &Value) -> Value {
    let body = json!({"id": id, "number_of_children": 0, "kind": "agent", "geographic_area": area});
    world.post("/poll", &body).await.ok().json()
}

/// Waits until a child is offered a release, and downloads it.
async fn takes(world: &World, id: &str, area: &Value, release: &str) {
    let asking = async {
        while polls(world, id, area).await["new_release"] != release {
            sleep(LOOK).await;
        }
    };
    if timeout(DEADLINE, asking).await.is_err() {
        let id = release.trim_end_matches(".rollout");
        panic!("{release} is not offered: {:#}", world.get(&format!("/api/v1/releases/{id}")).await.json());
    }
    world.fetch(id, release).await.ok();
}

fn url(world: &World, path: &str) -> String {
    format!("http://{}{path}", world.manager.address)
}

/// In Berlin, on Fiji beyond the antimeridian, and at both poles; one is nowhere.
async fn children(world: &World) -> Vec<String> {
    let mut ids = Vec::new();
    for (west, south) in [(13.0, 52.0), (13.2, 52.1), (179.5, -18.0), (-180.0, 89.0), (20.0, -90.0)] {
        ids.push(child_at(world, west, south).await);
    }
    let body = json!({"id": "", "number_of_children": 0, "kind": "agent"});
    let id = world.post("/poll", &body).await.ok().json()["id"].as_str().unwrap().to_owned();
    world.post("/poll", &json!({"id": id, "number_of_children": 0, "kind": "agent"})).await.ok();
    ids.push(id);
    ids
}

/// Each line of the table: its words, and its numbers by what the column is called.
const TABLE: &str = "(() => { \
    const names = [...document.querySelectorAll('table.cells thead th')].map((th) => th.textContent.trim()); \
    return [...document.querySelectorAll('table.cells tbody tr')].map((tr) => [...tr.children].map((cell, i) => \
        [names[i], cell.textContent.trim()])); })()";

/// What is drawn in each cell: its title.
const DRAWN: &str = "[...document.querySelectorAll('#drawing .cell')].map((g) => [g.dataset.state, g.querySelector('title').textContent])";

const LEGEND: &str = "Object.fromEntries([...document.querySelectorAll('#legend li')].map((li) => \
    [li.dataset.state, Number(li.querySelector('.number').textContent)]))";

fn words(name: &str) -> &'static str {
    model::MapState::named(name).unwrap().words()
}

fn sum(counts: &Value) -> u64 {
    counts.as_object().unwrap().values().map(|number| number.as_u64().unwrap()).sum()
}

/// The line of the table that counts have to have.
fn line(place: &str, counts: &Value, line: &Value) {
    let cells: Vec<(&str, &str)> = line
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| (cell[0].as_str().unwrap(), cell[1].as_str().unwrap()))
        .collect();
    assert_eq!((cells[0].1, cells[1].1), (place, sum(counts).to_string().as_str()), "{line}");
    let shown = cells[2..].iter().filter(|(_, number)| *number != "0").count();
    assert_eq!(shown, counts.as_object().unwrap().len(), "{counts} {line}");
    for (name, number) in counts.as_object().unwrap() {
        assert!(cells.contains(&(words(name), number.to_string().as_str())), "{name}: {line}");
    }
}

/// Panics unless table, drawing and legend say what the API says.
async fn agrees(page: &Page, cells: &Value) {
    let table = page.evaluate(TABLE).await.unwrap();
    let table = table.as_array().unwrap();
    line("Everywhere", &cells["total"], &table[0]);
    let mut lines = table[1..].iter();
    if sum(&cells["without_place"]) > 0 {
        line("Place not known", &cells["without_place"], lines.next().unwrap());
    }
    let drawn = page.evaluate(DRAWN).await.unwrap();
    let (drawn, all) = (drawn.as_array().unwrap(), cells["cells"].as_array().unwrap());
    assert_eq!((lines.len(), drawn.len()), (all.len(), all.len()));
    for ((cell, shown), drawn) in all.iter().zip(lines).zip(drawn) {
        line(cell["near"].as_str().unwrap(), &cell["counts"], shown);
        let title = drawn[1].as_str().unwrap();
        assert!(title.starts_with(cell["near"].as_str().unwrap()), "{title}");
        assert!(cell["counts"].get(drawn[0].as_str().unwrap()).is_some(), "{drawn} {cell}");
        for (name, number) in cell["counts"].as_object().unwrap() {
            assert!(title.contains(&format!("{number} {}", words(name))), "{title} {cell}");
        }
    }
    let legend = page.evaluate(LEGEND).await.unwrap();
    for (name, number) in legend.as_object().unwrap() {
        assert_eq!(*number, cells["total"].get(name).cloned().unwrap_or(json!(0)), "{name}");
    }
}

#[tokio::test]
async fn without_scripts_a_map_says_what_the_api_says() {
    let world = World::start().await;
    let ids = children(&world).await;
    world.submit(&strategy("a")).await.ok();
    world.poll(&ids[0]).await;
    world.fetch(&ids[0], "a").await.ok();
    browse(async |page| {
        page.scripts(false).await;
        for path in ["map", "releases/a/map"] {
            page.go(&url(&world, &format!("/ui/{path}"))).await;
            agrees(page, &world.get(&format!("/api/v1/{path}/cells?columns=36")).await.ok().json()).await;
        }
        let drawn = page.evaluate(DRAWN).await.unwrap().to_string();
        assert!(drawn.contains("1 doing"), "{drawn}");
        // A cell leads to what is in it, and back.
        page.leave_by(async || page.click("link", "55.0N 15.0E").await).await;
        let address = page.address().await;
        let shown = address.split_once("box=").unwrap().1.to_owned();
        agrees_in(page, &world, &shown).await;
        page.leave_by(async || page.click("link", "The whole world").await).await;
        // By its id, as any child's page or an API's answer has it.
        page.go(&url(&world, &format!("/ui/releases/a/map?child={}", ids[2]))).await;
        let found = page.evaluate("document.querySelector('#found').textContent").await.unwrap();
        assert!(found.as_str().unwrap().contains("17.5000S 180.0000"), "{found}");
        let west = page.evaluate("Number(document.querySelector('#map').dataset.box.split(',')[0])").await;
        let west = west.unwrap().as_f64().unwrap();
        assert!((west + 184.0).abs() < 0.01, "{west}");
        page.go(&url(&world, "/ui/map?child=%3Cb%3Enobody")).await;
        page.reads("There is no child with this id or number: <b>nobody").await;
        page.take_reports().await;
    })
    .await;
    world.stop().await;
}

/// In a part of the world lines are those of the API, and the others are counted.
async fn agrees_in(page: &Page, world: &World, shown: &str) {
    let cells = world.get(&format!("/api/v1/releases/a/map/cells?columns=36&box={shown}")).await.ok().json();
    let table = page.evaluate(TABLE).await.unwrap();
    let all = cells["cells"].as_array().unwrap();
    let lines = table.as_array().unwrap();
    let (first, cells_shown) = lines.split_at(lines.len() - all.len());
    assert_eq!(first.len(), 3, "{table}");
    assert_eq!((&first[2][0][1], &first[2][1][1]), (&json!("Outside of this view"), &json!("3")), "{table}");
    for (cell, shown) in all.iter().zip(cells_shown) {
        line(cell["near"].as_str().unwrap(), &cell["counts"], shown);
    }
}

/// Which pixels of the map have the colour of a class, in a picture of the window: how many, where their middle is from that of the
/// map, how many are to the left and to the right of that, and the pattern of all within the rectangle around them.
const PIXELS: &str = "(async (picture, kind, off) => { \
    const stage = document.querySelector('.map-stage'), probe = document.createElement('span'); \
    probe.className = kind; stage.append(probe); \
    const colour = getComputedStyle(probe).color.match(/\\d+/g).slice(0, 3).map(Number); probe.remove(); \
    const image = new Image(); image.src = `data:image/png;base64,${picture}`; await image.decode(); \
    const { x, y, width, height } = stage.getBoundingClientRect(), canvas = document.createElement('canvas'); \
    Object.assign(canvas, { width, height }); const context = canvas.getContext('2d'); context.drawImage(image, -x, -y); \
    const { data } = context.getImageData(0, 0, width, height), found = []; \
    for (let i = 0; i < data.length; i += 4) if (colour.every((c, k) => Math.abs(data[i + k] - c) < off)) \
        found.push([i / 4 % Math.floor(width), Math.floor(i / 4 / Math.floor(width))]); \
    const xs = found.map(([x]) => x), ys = found.map(([, y]) => y), least = (all) => all.reduce((a, b) => Math.min(a, b), 1e9); \
    const [left, top] = [least(xs), least(ys)], mean = (all) => all.reduce((a, b) => a + b, 0) / all.length, lines = []; \
    for (const [x, y] of found) { (lines[y - top] ??= [])[x - left] = '#'; } \
    const pattern = Array.from(lines, (line) => Array.from(line ?? [], (at) => at ?? ' ').join('')).join('\\n'); \
    return { count: found.length, x: mean(xs) - width / 2, y: mean(ys) - height / 2, pattern, \
        west: xs.filter((x) => x < width / 2).length, east: xs.filter((x) => x >= width / 2).length }; })";

/// What of a class is seen on the map.
async fn seen(page: &Page, class: &str) -> Result<Value, String> {
    seen_within(page, class, 3).await
}

/// The same of colours that are so near: lines are narrow, and mixed at their edges with what is below.
async fn seen_within(page: &Page, class: &str, off: u32) -> Result<Value, String> {
    page.evaluate("document.querySelector('.map-stage').scrollIntoView({ block: 'center' })").await?;
    let picture = STANDARD.encode(page.picture().await);
    page.promised(&format!("{PIXELS}({}, {}, {off})", json!(picture), json!(class))).await
}

/// How many pixels of the map have the colour of a class.
pub async fn pixels(page: &Page, class: &str) -> Result<u64, String> {
    let seen = seen(page, class).await?;
    seen["count"].as_u64().ok_or_else(|| seen.to_string())
}

/// Waits until something of this class is seen on the map.
pub async fn has_pixels(page: &Page, class: &str) {
    let look = async || Ok((pixels(page, class).await? > 10).then_some(()));
    page.until(&format!("pixels of {class}"), look).await;
}

/// Waits until the map tells this of its children.
pub async fn says(page: &Page, text: &str) {
    page.holds(&format!("document.querySelector('.map-told')?.textContent === {}", json!(text))).await;
}

#[tokio::test]
async fn children_are_drawn_and_what_becomes_of_them_is_seen_and_replayed() {
    let world = World::start().await;
    let ids = [child_at(&world, 13.0, 52.0).await, child_at(&world, -60.0, -10.0).await];
    world.submit(&strategy("a")).await.ok();
    browse(async |page| {
        page.go(&url(&world, "/ui/releases/a/map")).await;
        says(page, "2 waiting").await;
        has_pixels(page, "waiting").await;
        assert_eq!(pixels(page, "good").await, Ok(0));
        world.poll(&ids[0]).await;
        world.run(&ids[0], "a").await;
        says(page, "1 waiting, 1 done").await;
        has_pixels(page, "good").await;
        // The table follows, and leaves the map alone.
        page.holds("document.querySelector('#legend [data-state=done] .number')?.textContent === '1'").await;
        assert_eq!(page.evaluate("document.querySelectorAll('.map-stage').length").await.unwrap(), 1);
        agrees(page, &world.get("/api/v1/releases/a/map/cells?columns=36").await.ok().json()).await;
        // From the start to now.
        page.click("button", "Replay").await;
        says(page, "2 waiting").await;
        let to_end = "(() => { const slider = document.querySelector('.map-bar input'); slider.value = slider.max; \
             slider.dispatchEvent(new Event('input')); })()";
        page.evaluate(to_end).await.unwrap();
        says(page, "1 waiting, 1 done").await;
        page.click("button", "Back to now").await;
        page.click("button", "Show failures").await;
        page.reads("There are none.").await;
    })
    .await;
    world.stop().await;
}

/// A page that never hears of changes, as if each event were lost on the way.
const DEAF: &str = "const add = EventSource.prototype.addEventListener; \
    EventSource.prototype.addEventListener = function (kind, ...rest) { if (!['changes', 'load'].includes(kind)) add.call(this, kind, ...rest); };";

#[tokio::test]
async fn a_dropped_event_would_be_noticed() {
    let world = World::start().await;
    let id = child_at(&world, 13.0, 52.0).await;
    world.submit(&strategy("a")).await.ok();
    browse(async |page| {
        page.cdp("Page.addScriptToEvaluateOnNewDocument", json!({"source": DEAF})).await.unwrap();
        page.go(&url(&world, "/ui/releases/a/map")).await;
        says(page, "1 waiting").await;
        has_pixels(page, "waiting").await;
        world.poll(&id).await;
        world.run(&id, "a").await;
        // The table is fetched anew, and the map is not: they contradict each other.
        page.holds("document.querySelector('#legend [data-state=done] .number')?.textContent === '1'").await;
        let told = page.evaluate("document.querySelector('.map-told').textContent").await.unwrap();
        assert_eq!(told, "1 waiting");
        assert_eq!(pixels(page, "good").await, Ok(0));
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn without_webgl_there_are_counts_by_cell() {
    let world = World::start().await;
    child_at(&world, 13.0, 52.0).await;
    browse_with(Graphics::None, async |page| {
        page.go(&url(&world, "/ui/map")).await;
        page.reads("This browser has no WebGL: counts by cell.").await;
        says(page, "1 heard").await;
        page.take_reports().await;
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn of_more_children_than_are_drawn_there_are_counts_and_nothing_grows_old() {
    let world = World::start().await;
    child_at(&world, 13.0, 52.0).await;
    let led = "rollout: {order: parallel, late_joiners: include}\n";
    world.submit(&(strategy("a") + led)).await.ok();
    browse(async |page| {
        page.go(&url(&world, "/ui/releases/a/map")).await;
        has_pixels(page, "waiting").await;
        // As if one child were all that can be drawn, before another joins.
        page.evaluate("document.querySelector('#map').dataset.most = '1'").await.unwrap();
        child_at(&world, 14.0, 52.0).await;
        page.reads("There are too many children to show each: counts by cell.").await;
        says(page, "2 waiting").await;
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn a_map_has_no_faults_in_any_mode() {
    let world = World::start().await;
    let ids = children(&world).await;
    world.submit(&strategy("a")).await.ok();
    world.poll(&ids[0]).await;
    browse(async |page| {
        page.go(&url(&world, "/ui/releases/a/map")).await;
        page.reads("6 waiting").await;
        faults::none(page).await;
        page.scripts(false).await;
        page.go(&url(&world, "/ui/map")).await;
        page.click("link", "Releases").await;
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn land_is_drawn_however_near_one_looks_without_scripts() {
    let world = World::start().await;
    browse(async |page| {
        page.scripts(false).await;
        // The middle of the drawing: on land, on a sea, and on land across the antimeridian.
        for (window, is_land) in [
            ("9,50,17,54", true),
            ("-40,30,-32,34", false),
            ("176,66,184,70", true),
            ("-184,66,-176,70", true),
        ] {
            page.go(&url(&world, &format!("/ui/map?box={window}"))).await;
            page.until(window, async || {
                let found = page.evaluate(MIDDLE).await?;
                Ok((found == if is_land { "use" } else { "rect" }).then_some(()))
            })
            .await;
        }
    })
    .await;
    world.stop().await;
}

/// What is painted in the middle of the drawing.
const MIDDLE: &str = "(() => { const { left, top, width, height } = document.querySelector('svg.map').getBoundingClientRect(); \
    return document.elementFromPoint(left + width / 2, top + height / 2)?.tagName; })()";

/// Waits until what is seen of a class has its middle in that of the map.
async fn is_centred(page: &Page, class: &str) {
    let look = async || {
        let seen = seen(page, class).await?;
        let near = |axis: &str| seen[axis].as_f64().is_some_and(|off| off.abs() < 20.0);
        Ok((seen["count"].as_u64() > Some(10) && near("x") && near("y")).then_some(()))
    };
    page.until(&format!("{class} in the middle"), look).await;
}

async fn has_none(page: &Page, class: &str) {
    let look = async || Ok((pixels(page, class).await? == 0).then_some(()));
    page.until(&format!("no pixels of {class}"), look).await;
}

#[tokio::test]
async fn the_map_goes_to_a_wave_to_failures_and_to_a_child() {
    let world = World::start().await;
    let areas =
        [(13.0, 52.0), (20.0, 30.0), (-60.0, -10.0), (100.0, 30.0)].map(|(west, south)| square(west, south));
    let mut ids = Vec::new();
    for area in &areas {
        ids.push(child_of(&world, area).await);
    }
    let led = over_waves("waves: [2, 100%], max_failed: 100%, on_failure: continue");
    world.submit(&(strategy("a") + &led)).await.ok();
    let release = "/ui/releases/a/map";
    browse(async |page| {
        page.go(&url(&world, release)).await;
        says(page, "4 waiting").await;
        takes(&world, &ids[0], &areas[0], "a").await;
        world.report(&ids[0], "a", STAGE, 5).await.ok();
        takes(&world, &ids[1], &areas[1], "a").await;
        for status in [2, 4] {
            world.report(&ids[1], "a", STAGE, status).await.ok();
        }
        takes(&world, &ids[1], &areas[1], "a.rollout").await;
        world.report(&ids[1], "a.rollout", ROLLOUT_STAGE, 4).await.ok();
        // The second wave has begun at one of two.
        takes(&world, &ids[2], &areas[2], "a").await;
        says(page, "1 waiting, 1 doing, 1 done, 1 failed").await;
        for class in ["waiting", "going", "good", "bad"] {
            has_pixels(page, class).await;
        }
        page.click("button", "Show failures").await;
        is_centred(page, "bad").await;
        has_none(page, "going").await;
        page.click("button", "Show all").await;
        has_pixels(page, "going").await;
        // To one wave and to the other, by keys.
        page.evaluate("document.querySelector('.map-bar select').focus()").await.unwrap();
        page.press(Key::Down).await;
        has_none(page, "waiting").await;
        has_pixels(page, "bad").await;
        has_pixels(page, "good").await;
        page.press(Key::Down).await;
        has_pixels(page, "waiting").await;
        has_pixels(page, "going").await;
        has_none(page, "bad").await;
        // By its address.
        page.go(&url(&world, &format!("{release}?child={}", ids[2]))).await;
        is_centred(page, "going").await;
        has_none(page, "bad").await;
        page.reads(&ids[2]).await;
        // By keys alone: nearer, and away.
        page.evaluate("document.querySelector('.map-stage').focus()").await.unwrap();
        for _ in 0..30 {
            page.press(Key::Right).await;
        }
        has_none(page, "going").await;
    })
    .await;
    world.stop().await;
}

#[tokio::test]
async fn states_are_told_apart_by_shapes_and_not_by_colours_alone() {
    let world = World::start().await;
    let areas = [-100.0, -50.0, 0.0, 50.0, 100.0].map(|west| square(west, 20.0));
    let mut ids = Vec::new();
    for area in &areas {
        ids.push(child_of(&world, area).await);
    }
    let led = "rollout: {order: parallel, max_failed: 100%, on_failure: continue}\n";
    world.submit(&(strategy("a") + led)).await.ok();
    for (id, area) in ids.iter().zip(&areas).take(3) {
        takes(&world, id, area, "a").await;
    }
    world.report(&ids[0], "a", STAGE, 5).await.ok();
    for status in [2, 4] {
        world.report(&ids[1], "a", STAGE, status).await.ok();
    }
    takes(&world, &ids[1], &areas[1], "a.rollout").await;
    world.report(&ids[1], "a.rollout", ROLLOUT_STAGE, 4).await.ok();
    world.call("POST", &format!("/api/v1/children/{}/drain", ids[4])).await.ok();
    browse(async |page| {
        let mut shapes = Vec::new();
        for (id, class) in ids[..4].iter().zip(["bad", "good", "going", "waiting"]) {
            page.go(&url(&world, &format!("/ui/releases/a/map?child={id}"))).await;
            is_centred(page, class).await;
            shapes.push((class, pattern(page, class).await));
        }
        // Two that have one colour: who waits, and who is drained.
        page.go(&url(&world, &format!("/ui/map?child={}", ids[4]))).await;
        is_centred(page, "waiting").await;
        shapes.push(("drained", pattern(page, "waiting").await));
        for (at, (name, shape)) in shapes.iter().enumerate() {
            for (other, another) in &shapes[..at] {
                let least = shape.lines().count().min(another.lines().count());
                assert!(
                    least > 8,
                    "{name} and {other} are too small to be told apart:\n{shape}\n\n{another}"
                );
                assert!(
                    differ(shape, another) > 20,
                    "{name} and {other} look the same:\n{shape}\n\n{another}"
                );
            }
        }
        // Without colours of their own, too.
        page.look(Mode::Forced).await;
        is_centred(page, "waiting").await;
    })
    .await;
    world.stop().await;
}

/// In how many pixels two shapes differ.
fn differ(one: &str, other: &str) -> usize {
    let pixels = |shape: &str| -> HashSet<(usize, usize)> {
        let lines = shape.lines().enumerate();
        lines
            .flat_map(|(y, line)| {
                line.char_indices().filter(|(_, at)| *at == '#').map(move |(x, _)| (x, y)).collect::<Vec<_>>()
            })
            .collect()
    };
    pixels(one).symmetric_difference(&pixels(other)).count()
}

/// The pattern of what is seen of a class, once the picture rests.
async fn pattern(page: &Page, class: &str) -> String {
    let mut last = String::new();
    page.until("a picture that rests", async || {
        let now = seen(page, class).await?["pattern"].as_str().unwrap_or_default().to_owned();
        let rests = now == last && !now.is_empty();
        last.clone_from(&now);
        Ok(rests.then_some(now))
    })
    .await
}

#[tokio::test]
async fn the_target_and_areas_of_children_are_drawn() {
    let world = World::start().await;
    child_at(&world, 13.0, 52.0).await;
    let target = json!({"type": "Polygon", "coordinates": [[[12.8, 51.8], [14.2, 51.8], [14.2, 53.2], [12.8, 53.2], [12.8, 51.8]]]});
    world.submit(&format!("{}target: {{area: {target}}}\n", strategy("a"))).await.ok();
    browse(async |page| {
        // Nobody is at work: what has that colour is the line around the target.
        page.go(&url(&world, "/ui/releases/a/map?box=12.7,51.7,14.3,53.3")).await;
        says(page, "1 waiting").await;
        let many = async |class: &str| {
            let look = async || Ok((of_line(page, class).await? > 200).then_some(()));
            page.until(&format!("a line of {class}"), look).await;
        };
        many("going").await;
        many("waiting").await;
        // Of the fleet there are areas, and no target.
        page.go(&url(&world, "/ui/map?box=12.7,51.7,14.3,53.3")).await;
        says(page, "1 heard").await;
        many("good").await;
        assert_eq!(of_line(page, "going").await, Ok(0));
    })
    .await;
    world.stop().await;
}

/// Pixels of a line.
async fn of_line(page: &Page, class: &str) -> Result<u64, String> {
    Ok(seen_within(page, class, 60).await?["count"].as_u64().unwrap_or_default())
}

#[tokio::test]
async fn children_beside_the_antimeridian_and_at_the_poles_are_seen() {
    let world = World::start().await;
    for (west, south) in [(179.0, -18.0), (-180.0, -18.0), (40.0, 89.0), (40.0, -90.0)] {
        child_at(&world, west, south).await;
    }
    browse(async |page| {
        // On both sides of the line, from either side of it.
        for window in ["176,-20,184,-16", "-184,-20,-176,-16"] {
            page.go(&url(&world, &format!("/ui/map?box={window}"))).await;
            says(page, "4 heard").await;
            page.until("one on each side", async || {
                let seen = seen(page, "good").await?;
                let part = |side: &str| seen[side].as_u64().unwrap_or_default();
                Ok((part("west") > 10 && part("east") > 10 && part("west").abs_diff(part("east")) < 20)
                    .then_some(()))
            })
            .await;
        }
        for window in ["38,85,43,90", "38,-90,43,-85"] {
            page.go(&url(&world, &format!("/ui/map?box={window}"))).await;
            says(page, "4 heard").await;
            has_pixels(page, "good").await;
        }
        // Nothing is drawn twice where the whole world is seen.
        page.go(&url(&world, "/ui/map")).await;
        says(page, "4 heard").await;
        has_pixels(page, "good").await;
    })
    .await;
    world.stop().await;
}

/// What the map's own context of WebGL can be asked for, kept over the moment in which it is gone.
const LOSE: &str = "globalThis.loses = document.querySelector('.map-points').getContext('webgl2').getExtension('WEBGL_lose_context'); \
    loses.loseContext()";

#[tokio::test]
async fn a_map_that_loses_its_graphics_shows_counts_until_they_are_back() {
    let world = World::start().await;
    let ids = [child_at(&world, 13.0, 52.0).await, child_at(&world, -60.0, -10.0).await];
    world.submit(&strategy("a")).await.ok();
    browse(async |page| {
        page.go(&url(&world, "/ui/releases/a/map")).await;
        says(page, "2 waiting").await;
        let points = pattern(page, "waiting").await;
        page.evaluate(LOSE).await.unwrap();
        // Cells have larger signs.
        page.until("cells", async || {
            Ok((differ(&points, &pattern(page, "waiting").await) > 20).then_some(()))
        })
        .await;
        world.run(&ids[0], "a").await;
        says(page, "1 waiting, 1 done").await;
        // How high the sign of the one that is done is, in pixels; 0: there is none.
        let tall = async || {
            Ok::<_, String>(
                seen_within(page, "good", 20).await?["pattern"].as_str().map_or(0, |it| it.lines().count()),
            )
        };
        page.until("the sign of a cell", async || Ok((tall().await? > LARGEST_POINT).then_some(()))).await;
        page.evaluate("loses.restoreContext()").await.unwrap();
        page.until("a point", async || Ok((1..=LARGEST_POINT).contains(&tall().await?).then_some(()))).await;
        says(page, "1 waiting, 1 done").await;
        // That its context was lost.
        page.take_reports().await;
    })
    .await;
    world.stop().await;
}

/// How many pixels a point is high at most where the whole world is seen.
const LARGEST_POINT: usize = 7;

/// Children at one point.
const CROWD: usize = 2_000;

#[tokio::test]
async fn a_crowd_at_one_point_is_counted() {
    let world = World::start().await;
    // Each a hand's breadth from the others: whoever comes to the very place of another that fell silent takes its place.
    let point = |at: usize| {
        let west = 13.0 + at as f64 * 1e-6;
        json!({"type": "Polygon", "coordinates": [[[west, 52.0], [west + 0.001, 52.0], [west + 0.001, 52.001], [west, 52.0]]]})
    };
    let comes = async |at: usize| (at, child_of(&world, &point(at)).await);
    let ids: Vec<(usize, String)> = stream::iter(0..CROWD).map(comes).buffer_unordered(16).collect().await;
    let known = world.get("/api/v1/map/cells?columns=36").await.ok().json();
    assert_eq!(sum(&known["total"]), CROWD as u64, "{known:#}");
    world
        .submit(&(strategy("a") + "rollout: {order: parallel, max_failed: 100%, on_failure: continue}\n"))
        .await
        .ok();
    let (at, id) = &ids[0];
    takes(&world, id, &point(*at), "a").await;
    world.report(id, "a", STAGE, 5).await.ok();
    let told = "1,999 waiting, 1 failed";
    browse(async |page| {
        page.go(&url(&world, "/ui/releases/a/map")).await;
        says(page, told).await;
        // The failure lies above all others.
        has_pixels(page, "bad").await;
        page.click("button", "Show failures").await;
        is_centred(page, "bad").await;
        for path in ["releases/a/map", "map"] {
            page.go(&url(&world, &format!("/ui/{path}"))).await;
            let cells = world.get(&format!("/api/v1/{path}/cells?columns=36")).await.ok().json();
            assert_eq!((sum(&cells["total"]), cells["cells"].as_array().unwrap().len()), (CROWD as u64, 1));
            agrees(page, &cells).await;
        }
        page.go(&url(&world, "/ui/releases/a")).await;
        page.reads("2000 take part").await;
    })
    .await;
    browse_with(Graphics::None, async |page| {
        page.go(&url(&world, "/ui/releases/a/map")).await;
        says(page, told).await;
        page.take_reports().await;
    })
    .await;
    world.stop().await;
}

/// A ring of so many corners on a circle of a degree.
fn round(corners: usize) -> Value {
    let corner = |at: usize| {
        let angle = at as f64 / corners as f64 * std::f64::consts::TAU;
        [13.0 + 0.5 * angle.cos(), 52.0 + 0.5 * angle.sin()].map(|degrees| (degrees * 1e4).round() / 1e4)
    };
    let mut ring: Vec<[f64; 2]> = (0..corners).map(corner).collect();
    ring.push(ring[0]);
    json!({"type": "Polygon", "coordinates": [ring]})
}

#[tokio::test]
async fn areas_of_many_corners_are_shown_and_those_of_more_are_refused_in_words() {
    let world = World::start().await;
    let known =
        |area: &Value| json!({"id": "", "number_of_children": 0, "kind": "agent", "geographic_area": area});
    let refused = world.post("/poll", &known(&round(10_000))).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(refused.text().starts_with("`geographic_area`: the area has "), "{}", refused.text());
    let id = child_of(&world, &round(MOST_CORNERS)).await;
    let with = |corners: usize| format!("{}target: {{area: {}}}\n", strategy("a"), round(corners));
    browse(async |page| {
        page.go(&url(&world, "/ui/strategies/new")).await;
        page.fill("Strategy", &with(10_000)).await;
        page.leave_by(async || page.click("button", "Check and plan").await).await;
        page.reads("too big for a strategy").await;
        page.fill("Strategy", &with(MOST_CORNERS)).await;
        page.leave_by(async || page.click("button", "Submit").await).await;
        assert!(page.address().await.ends_with("/ui/releases/a"));
        page.go(&url(&world, "/ui/releases/a/map?box=12,51.3,14,52.7")).await;
        says(page, "1 waiting").await;
        // The target's line lies below that of the child's own area, which is nearly the same.
        let line = async || Ok::<_, String>(of_line(page, "waiting").await? + of_line(page, "going").await?);
        page.until("its line", async || Ok((line().await? > 200).then_some(()))).await;
        page.go(&url(&world, &format!("/ui/children/{id}"))).await;
        page.click("DisclosureTriangle", "Its area").await;
        page.reads("13.5,52").await;
        // What was refused, said in the console.
        page.take_reports().await;
    })
    .await;
    world.stop().await;
}

/// That an area may have.
const MOST_CORNERS: usize = 1_000;
