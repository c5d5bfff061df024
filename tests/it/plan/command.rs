//! `choirmaster plan`.

use choirmaster::cli;
use clap::Parser as _;
use serde_json::Value;

use super::api::{TARGET, fleet};
use crate::world::{World, strategy};

/// Runs the command in this process, against a manager in this process.
async fn run(world: &World, yaml: &str, args: &[&str]) -> Result<String, String> {
    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: cli::plan::Args,
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.yml");
    std::fs::write(&file, yaml).unwrap();
    let url = format!("http://{}", world.manager.address);
    let all = ["plan", file.to_str().unwrap(), "--url", &url].into_iter().chain(args.iter().copied());
    let mut out = Vec::new();
    let done = cli::plan::run(&Command::try_parse_from(all).unwrap().args, &mut out).await;
    let text = |text: String| text.replace(file.to_str().unwrap(), "r.yml");
    done.map(|_| text(String::from_utf8(out).unwrap())).map_err(|failure| text(failure.text))
}

#[tokio::test]
async fn a_plan_is_told_in_children_agents_and_square_kilometres() {
    let world = World::start().await;
    fleet(&world).await;
    let yaml = format!("{TARGET}rollout: {{order: waves, waves: [1, 100%]}}\n{}", strategy("west"));
    insta::assert_snapshot!(run(&world, &yaml, &["--all"]).await.unwrap(), @r"
    west: 2 children take part, 2 agents, 37080 km²
      the target has 1230166 km²; 24720 km² of theirs lie in it
      order: waves

    WAVE  UP TO  CHILDREN BEGIN  AGENTS  AGENTS SO FAR
    1     1      1               1       1
    2     100%   1               1       2

    STAGE             CONDITION        CALLS  FAILS BY CHANCE  UNTESTED  ENOUGH CALLS  BY
    Canary 5 Percent  errorRate <0.02  50     0.2 %            7.7 %     61            assumed: 0.1 % errors
      stage Canary 5 Percent, errorRate <0.02: raise minCalls from 50 to 61: an equal version fails by chance at 0.2 % of the agents and is untested at 7.7 % after 50 calls

    TAKES NO PART           CHILDREN  AGENTS  KM²
    outside the area        1         1       12360
    label tier is not edge  1         1       12360
    lacks runtime nodejs    1         1       12360

    CHILD    NAME OR PLACE  AGENTS  KM²    TURN
    inside   inside         1       12360  wave 1
    across   across         1       24720  wave 2
    outside  outside        1       12360  -       outside the area
    core     core           1       12360  -       label tier is not edge
    python   python         1       12360  -       lacks runtime nodejs
    ");
    let short = run(&world, &yaml, &["--all", "--limit", "2"]).await.unwrap();
    assert!(short.ends_with("… and more: raise --limit\n"), "{short}");
    let json: Value = serde_json::from_str(&run(&world, &yaml, &["--json", "--all"]).await.unwrap()).unwrap();
    assert_eq!(json["children"].as_array().unwrap().len(), 5);
    world.stop().await;
}

#[tokio::test]
async fn without_blocks_everybody_takes_part() {
    let world = World::start().await;
    insta::assert_snapshot!(run(&world, &strategy("a"), &[]).await.unwrap(), @r"
    a: 0 children take part, 0 agents, 0.00 km²

    STAGE             CONDITION        CALLS  FAILS BY CHANCE  UNTESTED  ENOUGH CALLS  BY
    Canary 5 Percent  errorRate <0.02  50     0.2 %            7.7 %     61            assumed: 0.1 % errors
      stage Canary 5 Percent, errorRate <0.02: raise minCalls from 50 to 61: an equal version fails by chance at 0.2 % of the agents and is untested at 7.7 % after 50 calls
    ");
    fleet(&world).await;
    insta::assert_snapshot!(run(&world, &strategy("a"), &[]).await.unwrap(), @r"
    a: 4 children take part, 4 agents, 61800 km²

    STAGE             CONDITION        CALLS  FAILS BY CHANCE  UNTESTED  ENOUGH CALLS  BY
    Canary 5 Percent  errorRate <0.02  50     0.2 %            7.7 %     61            assumed: 0.1 % errors
      stage Canary 5 Percent, errorRate <0.02: raise minCalls from 50 to 61: an equal version fails by chance at 0.2 % of the agents and is untested at 7.7 % after 50 calls

    TAKES NO PART         CHILDREN  AGENTS  KM²
    lacks runtime nodejs  1         1       12360
    ");
    let refused = run(&world, &strategy("a").replace("func_name: sieve", "func_name: seive"), &[]).await;
    insta::assert_snapshot!(refused.unwrap_err(), @r#"
    the strategy has a fault: there is no function "seive"

    r.yml:18:16: error: there is no function "seive"
     18 |     func_name: seive
      help: did you mean sieve?
    "#);
    world.stop().await;
}

#[tokio::test]
async fn a_plan_says_how_often_deployed_agents_are_looked_at() {
    let world = World::start().await;
    fleet(&world).await;
    let metric =
        "{name: times, provider: children, metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH}";
    let block = format!("    analysis: {{duration: 1m, interval: 5s, metrics: [{metric}]}}\n    end_action:");
    let judged = strategy("a").replace("    end_action:", &block);
    let text = run(&world, &format!("rollout: {{order: parallel}}\n{judged}"), &[]).await.unwrap();
    let line = text.lines().find(|line| line.contains("one look:")).unwrap_or_else(|| panic!("{text}"));
    let (said, _) = line.split_once("; with ").unwrap();
    insta::assert_snapshot!(said.trim(), @"stage Canary 5 Percent, times: one look: 4 agents report once, at minDuration (2s) and minCalls (50); interval (5s) acts only for children that report while a stage goes on");
    world.stop().await;
}

#[tokio::test]
async fn the_picture_is_geojson_with_target_and_children() {
    let world = World::start().await;
    fleet(&world).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.geojson");
    let yaml = format!("{TARGET}rollout: {{order: waves, waves: [1, 100%]}}\n{}", strategy("west"));
    run(&world, &yaml, &["--geojson", path.to_str().unwrap()]).await.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let Ok(geojson::GeoJson::FeatureCollection(map)) = text.parse() else { panic!("{text}") };
    let mut told = String::new();
    for feature in &map.features {
        let property = |name: &str| feature.property(name).map(ToString::to_string).unwrap_or_default();
        told.push_str(&format!(
            "{} {} {} wave {} {}\n",
            feature.geometry.as_ref().unwrap().value.type_name(),
            property("role"),
            property("child"),
            property("wave"),
            property("reason"),
        ));
    }
    insta::assert_snapshot!(told, @r#"
    MultiPolygon "target"  wave  
    Polygon "child" "inside" wave 1 null
    Polygon "child" "across" wave 2 null
    Polygon "child" "outside" wave null "outside the area"
    Polygon "child" "core" wave null "label tier is not edge"
    Polygon "child" "python" wave null "lacks runtime nodejs"
    "#);
    world.stop().await;
}
