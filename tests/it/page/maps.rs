//! A map without scripts: the same facts as a drawing and as tables.

use serde_json::Value;

use super::read::{page, rows, text_of};
use crate::world::{AREA, STAGE, World, strategy};

#[tokio::test]
async fn a_release_map_has_the_line_of_its_target_and_says_where_it_is() {
    let world = World::start().await;
    world.child().await;
    world.submit(&(strategy("bound") + &format!("target: {{area: {AREA}}}\n"))).await.ok();
    world.submit(&strategy("free").replace("sieve", "greet")).await.ok();
    let path = "/ui/releases/bound/map?box=12,52,14,53";
    let html = page(&world, path).await;
    let drawn = html.split_once("<path class=\"target\" d=\"").unwrap().1.split('"').next().unwrap();
    assert!(drawn.starts_with('M') && drawn.ends_with('z') && drawn.matches('L').count() >= 2, "{drawn}");
    // In words: the box around it, which the API tells as rings.
    let cells = world.get("/api/v1/releases/bound/map/cells?box=12,52,14,53").await.ok().json();
    let corners: Vec<&Value> =
        cells["target"].as_array().unwrap().iter().flat_map(|ring| ring.as_array().unwrap()).collect();
    let of = |at: usize| corners.iter().map(|corner| corner[at].as_f64().unwrap()).collect::<Vec<_>>();
    let (least, most) = (
        |all: &[f64]| all.iter().copied().fold(f64::INFINITY, f64::min),
        |all: &[f64]| all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    );
    let (x, y) = (of(0), of(1));
    let expected = format!("{:.2}, {:.2}, {:.2}, {:.2}.", least(&x), least(&y), most(&x), most(&y));
    let target =
        |html: &str| text_of(html.split_once("id=\"target\">").unwrap().1.split("</p>").next().unwrap());
    assert!(target(&html).ends_with(&expected), "{} {expected}", target(&html));
    let free = page(&world, "/ui/releases/free/map").await;
    assert!(!free.contains("class=\"target\""), "{free}");
    assert!(target(&free).starts_with("No line of a target is in this view"), "{free}");
    // The fleet has none.
    assert!(!page(&world, "/ui/map").await.contains("id=\"target\""));
    world.stop().await;
}

#[tokio::test]
async fn a_release_map_counts_by_wave_and_says_in_which_waves_each_place_is() {
    let world = World::start().await;
    let one = world.child().await;
    for _ in 0..2 {
        world.child().await;
    }
    world
        .submit(&(strategy("a") + "rollout: {order: waves, waves: [1, 2, 100%], on_failure: continue}\n"))
        .await
        .ok();
    world.poll(&one).await;
    world.fetch(&one, "a").await.ok();
    world.report(&one, "a", STAGE, 5).await.ok();
    let release = world.get("/api/v1/releases/a").await.ok().json();
    let html = page(&world, "/ui/releases/a/map").await;
    let by_wave = html.split_once("id=\"by-wave\"").unwrap().1.split("</table>").next().unwrap();
    let heads: Vec<String> = by_wave
        .split("<th scope=\"col\">")
        .skip(1)
        .map(|th| text_of(th.split("</th>").next().unwrap()))
        .collect();
    let mut lines = 0;
    for wave in release["waves"].as_array().unwrap() {
        let row = by_wave
            .split(&format!("data-key=\"wave {}\"", wave["number"]))
            .nth(1)
            .unwrap()
            .split("</tr>")
            .next()
            .unwrap();
        let cells: Vec<String> = row
            .split("<td class=\"number\">")
            .skip(1)
            .map(|td| text_of(td.split("</td>").next().unwrap()))
            .collect();
        let children = wave["children"].as_object().unwrap();
        let all: u64 = children.values().filter_map(Value::as_u64).sum();
        assert_eq!(cells[0], all.to_string());
        for (head, cell) in heads[2..].iter().zip(&cells[1..]) {
            let state =
                children.iter().find(|(name, _)| model::MapState::named(name).unwrap().words() == head);
            assert_eq!(
                *cell,
                state.map_or_else(|| "0".to_owned(), |(_, number)| number.to_string()),
                "{head}"
            );
        }
        assert!(row.contains(&format!("href=\"/ui/releases/a/children?wave={}\"", wave["number"])), "{row}");
        lines += 1;
    }
    assert_eq!(lines, 3);
    let places = html.split_once("id=\"cells\"").unwrap().1;
    assert!(text_of(places).contains("Waves"), "{places}");
    assert!(rows(places).keys().any(|key| key != "all"), "{places}");
    assert!(places.contains("<td>1 to 3</td>"), "{places}");
    world.stop().await;
}
