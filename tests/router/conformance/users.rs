//! Many users while shares go up and back: who moves, and what part of them has which variation. A run of the tests asks for a twentieth
//! of them; `tests/long routers` for all.

use std::{net::SocketAddr, sync::Arc};

use traffic::{
    Bucket,
    desired::{ServiceSpec, StickyTo},
};

use super::{Real, done};
use crate::{
    conformance::state::with_shares,
    loss::{PARTS, is_all},
    world::{
        backend::Backend,
        caller::Caller,
        place::free_port,
        wants::{HEADER, service, wanted},
    },
};

const USERS: u32 = 100_000;
/// Callers who ask for users at once.
const CALLERS: u32 = 8;
/// By how many points shares of all users may be off with two variations.
const POINTS_OFF: f64 = 0.2;

const NAMES: [&str; 3] = ["A", "B", "C"];

fn user(number: u32) -> String {
    format!("user-{number}")
}

/// What one of the callers finds of the users that are its.
async fn ask(at: SocketAddr, caller: u32, users: u32) -> Vec<(u32, u8)> {
    let mut calling = Caller::new(at);
    let mut found = Vec::new();
    for number in (caller..users).step_by(CALLERS as usize) {
        let name = calling.variation(&[(HEADER, &user(number))]).await;
        let which = NAMES.iter().position(|known| *known == name).expect("it is one of these");
        found.push((number, which as u8));
    }
    found
}

/// Which variation the router itself gives to each user: by calls.
async fn variations(at: SocketAddr, users: u32) -> Vec<u8> {
    let calling: Vec<_> = (0..CALLERS).map(|caller| tokio::spawn(ask(at, caller, users))).collect();
    let mut of = vec![u8::MAX; users as usize];
    for one in calling {
        for (number, which) in one.await.unwrap() {
            of[number as usize] = which;
        }
    }
    of
}

/// Which each is to have.
fn expected(spec: &ServiceSpec, users: u32) -> Vec<u8> {
    let of = |number: u32| {
        let key = user(number);
        let bucket = Bucket::of_key(spec.hash, spec.salt.as_str().as_bytes(), key.as_bytes());
        spec.table.variation(bucket).0
    };
    (0..users).map(of).collect()
}

/// By how many points the share of users may be off. Users are drawn by their keys: the two variations that are promised are held to their
/// word, of which fewer users keep less, and any others to four standard deviations of a fair draw.
fn most_off(wanted: f64, variations: usize, users: u32) -> f64 {
    if variations == 2 {
        return POINTS_OFF * f64::from(USERS / users).sqrt();
    }
    4.0 * (wanted * (100.0 - wanted) / f64::from(users)).sqrt()
}

fn check_shares(of: &[u8], hundredths: &[u16]) {
    for (which, wanted) in (0..).zip(hundredths) {
        let have = of.iter().fold(0_u32, |have, one| have + u32::from(*one == which));
        let (points, wanted) = (100.0 * f64::from(have) / of.len() as f64, f64::from(*wanted) / 100.0);
        let off = most_off(wanted, hundredths.len(), of.len() as u32);
        assert!((points - wanted).abs() <= off, "{points} % of users have {which}, and {wanted} % are to");
    }
}

/// Whoever moved left a variation that shrank for one that grew; with two, exactly those by whom the share differs.
fn check_moves((before, after): (&[u8], &[u8]), (from, to): (&[u16], &[u16])) {
    for (was, is) in before.iter().zip(after).filter(|(was, is)| was != is) {
        let (was, is) = (usize::from(*was), usize::from(*is));
        assert!(to[was] < from[was] && to[is] > from[is], "one moved from {was} to {is}: {from:?} to {to:?}");
    }
}

pub async fn exactly_those_users_move_who_must_and_shares_of_users_are_those_wanted<R: Real>() {
    let two: &[&[u16]] = &[&[9_500, 500], &[9_000, 1_000], &[5_000, 5_000], &[9_000, 1_000], &[10_000, 0]];
    let three: &[&[u16]] = &[
        &[9_000, 500, 500],
        &[8_000, 1_000, 1_000],
        &[5_000, 2_000, 3_000],
        &[9_000, 0, 1_000],
        &[10_000, 0, 0],
    ];
    let users = if is_all() { USERS } else { USERS / PARTS };
    for steps in [two, three] {
        let mut real = R::start().await;
        let mut router = real.open();
        let mut backends = Vec::new();
        for name in &NAMES[..steps[0].len()] {
            backends.push(Backend::start(name).await);
        }
        let port = free_port();
        let mut spec = service("checkout", port, &backends, steps[0]);
        spec.hash = R::HASH;
        spec.sticky = Some(StickyTo::Header(HEADER.parse().unwrap()));
        let mut before: Option<(Vec<u8>, &[u16])> = None;
        for (generation, hundredths) in (1..).zip(steps) {
            spec = with_shares(&spec, hundredths);
            let wanted = wanted(generation, &[&spec]);
            done(&router, &wanted).await;
            if generation == 3 {
                // Half-way both are started anew, and nobody moves by that.
                let there = variations(real.at(port), users).await;
                drop(router);
                real.start_again().await;
                router = real.open();
                done(&router, &wanted).await;
                assert!(there == variations(real.at(port), users).await, "some moved by a restart");
            }
            let of = variations(real.at(port), users).await;
            assert!(
                of == expected(&spec, users),
                "who has which at {hundredths:?} isn't what the table says"
            );
            check_shares(&of, hundredths);
            if let Some((was, from)) = &before {
                check_moves((was, &of), (from, hundredths));
            }
            before = Some((of, hundredths));
        }
        drop(Arc::clone(&router));
    }
    println!("{}: {users} users through {} steps", R::KIND.name(), two.len() + three.len());
}
