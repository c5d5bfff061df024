//! Two managers on one store, and the orderly end of one that is at work.

use std::time::Duration;

use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    agent, check,
    kill::until_quiet,
    operator::Operator,
    server::{Start, tail},
    world::World,
};
use crate::{
    deadline::DEADLINE,
    {seed::seed, store::place::Place},
};

/// A standby looks once a second.
const TAKE_OVER: Duration = Duration::from_secs(15);

async fn a_second_manager_says_that_there_is_one_and_ends(place: &Place) {
    let first = Start::on(place);
    let server = first.listening().await;
    let second = Start { log: first.log.with_extension("second"), ..first.clone() };
    let status = second.spawn().listening().await.err().expect("two managers listen on one store");
    assert_eq!(status.code(), Some(1), "{}", tail(&second.log));
    let said = tail(&second.log);
    assert!(said.contains("another manager") && said.contains("--standby"), "{said}");
    // The first one has not noticed.
    let world = World::new();
    world.serves_at(Some(server.address));
    assert_eq!(world.get("/healthz").await.unwrap().unwrap().status, 200);
    server.kill();
}

async fn a_standby_takes_over_from_a_killed_manager_with_all_it_had_answered(place: &Place) {
    let (world, asker) = (World::new(), World::new());
    let first = Start::on(place);
    let server = first.listening().await;
    let standby =
        Start { log: first.log.with_extension("standby"), flags: vec!["--standby"], ..first.clone() };
    let waiting = tokio::spawn(standby.spawn().listening());
    world.serves_at(Some(server.address));
    let agents = agent::start(&world, 6, seed());
    let operator = tokio::spawn(Operator::new(&world, seed()).run({
        let world = world.clone();
        move || world.acknowledged() > 80
    }));
    let _ = timeout(TAKE_OVER, world.acknowledged_after(40)).await;
    assert!(!waiting.is_finished(), "{}", tail(&standby.log));
    server.kill();
    world.serves_at(None);
    let taken = timeout(TAKE_OVER, waiting).await.expect("the standby does not take over").unwrap();
    let server = taken.unwrap_or_else(|status| panic!("the standby ended: {status}\n{}", tail(&standby.log)));
    world.serves_at(Some(server.address));
    asker.serves_at(Some(server.address));
    operator.await.unwrap().unwrap();
    ends_well(&world, place, &asker, agents, &standby).await;
    server.kill();
}

async fn a_manager_told_to_end_while_at_work_ends_with_0_and_loses_nothing(place: &Place) {
    let (world, asker) = (World::new(), World::new());
    let start = Start::on(place);
    let agents = agent::start(&world, 12, seed());
    let operator = tokio::spawn(Operator::new(&world, seed()).run({
        let world = world.clone();
        move || world.acknowledged() > 150
    }));
    for _ in 0..4 {
        let server = start.listening().await;
        world.serves_at(Some(server.address));
        let _ = timeout(Duration::from_secs(5), world.acknowledged_after(30)).await;
        let status = timeout(Duration::from_secs(15), server.terminate()).await.expect("it does not end");
        assert_eq!(status.code(), Some(0), "{}", tail(&start.log));
        world.serves_at(None);
        sleep(Duration::from_millis(10)).await;
    }
    let server = start.listening().await;
    world.serves_at(Some(server.address));
    asker.serves_at(Some(server.address));
    operator.await.unwrap().unwrap();
    ends_well(&world, place, &asker, agents, &start).await;
    server.kill();
}

/// Lets all come to rest, and then looks whether everything is as it was answered.
async fn ends_well(world: &World, place: &Place, asker: &World, agents: JoinSet<()>, start: &Start) {
    assert!(until_quiet(place, DEADLINE).await, "{}", check::waited_for(place).await);
    world.stop.cancel();
    agents.join_all().await;
    check::all_holds(world, place, asker).await;
    let violations = world.ledger().violations.join("\n");
    assert!(violations.is_empty(), "{violations}\n{}", tail(&start.log));
}

crate::store::place::stories!(
    a_second_manager_says_that_there_is_one_and_ends,
    a_standby_takes_over_from_a_killed_manager_with_all_it_had_answered,
    a_manager_told_to_end_while_at_work_ends_with_0_and_loses_nothing,
);
