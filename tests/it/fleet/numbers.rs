//! The simulated numbers: what follows from the seed, and what the flags mean.

use std::{collections::HashSet, time::Duration};

use analysis::{Clock, Rounding};
use model::duration::read_go;
use protocol::HistogramForm;
use rand::{SeedableRng, rngs::StdRng};
use simulated_children::{Behaviour, BoundingBox, CallClock, Latency, Offer, StageCalls, area_of};

const BOX: BoundingBox = BoundingBox { west: 13.3, south: 52.4, east: 13.6, north: 52.6 };

fn stage_of(seed: u64) -> StageCalls {
    stage_timed_by(seed, CallClock::MICROSECONDS)
}

fn stage_timed_by(seed: u64, clock: CallClock) -> StageCalls {
    let base = Behaviour { latency: Latency::LogNormal { median_ms: 8.0, sigma: 0.3 }, errors: 0.01 };
    let new = Behaviour { latency: Latency::Uniform { from_ms: 20.0, to_ms: 40.0 }, errors: 0.25 };
    let mut calls = StageCalls::new(base, new, 0.1, 50.0).timed_by(clock);
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..400 {
        calls.advance(Duration::from_secs(1), &mut rng);
    }
    calls
}

#[test]
fn numbers_follow_from_the_seed() {
    let (once, again, other) = (stage_of(1), stage_of(1), stage_of(2));
    assert_eq!((&once.base, &once.new), (&again.base, &again.new));
    assert_ne!(once.base, other.base);
}

#[test]
fn numbers_are_those_that_were_asked_for() {
    let calls = stage_of(1);
    assert_eq!(calls.calls(), 20_000);
    let share = calls.new.calls as f64 / 20_000.0;
    assert!((0.09..0.11).contains(&share), "{share}");
    assert!((0.22..0.28).contains(&calls.new.error_rate()));
    let (base, new, proxy) = (calls.base.times(), calls.new.times(), calls.proxy_times());
    assert!((7.5..8.5).contains(&base.median), "{base:?}");
    assert!((27.0..33.0).contains(&new.median) && new.minimum >= 20.0 && new.maximum <= 40.0, "{new:?}");
    assert!(proxy.minimum > base.minimum && proxy.maximum > new.maximum, "{proxy:?}");
    let Some(HistogramForm::Sketch(histogram)) = calls.new.histogram() else { panic!("{calls:?}") };
    assert_eq!(histogram.count(), calls.new.calls - calls.new.errors);
    let median = histogram.quantile(0.5).unwrap();
    assert!((median / new.median - 1.0).abs() < 0.03, "{median} {new:?}");
}

#[test]
fn clocks_are_read_or_refused_with_an_example_and_show_whole_steps() {
    let clock = |text: &str| text.parse::<CallClock>();
    assert_eq!(clock("1us"), Ok(CallClock::MICROSECONDS));
    let down = CallClock { step: Duration::from_millis(1), rounding: Rounding::Down };
    assert_eq!((clock("1ms,down"), clock("0.001s,down")), (Ok(down), Ok(down)));
    let nearest = clock("1ms").unwrap();
    assert_eq!((nearest, clock("1000us")), (CallClock { rounding: Rounding::Nearest, ..down }, Ok(nearest)));
    for wrong in ["", "1", "0ms", "1ns", "0.5us", "2s", "1ms,up", "1ms,", "1ms,down,down", "-1ms", "0.0005ms"]
    {
        assert!(clock(wrong).unwrap_err().starts_with("a clock looks like"), "{wrong}");
    }
    assert_eq!((nearest.read(15.7), down.read(15.7), nearest.read(0.3)), (16.0, 15.0, 0.0));
    assert_eq!(CallClock::MICROSECONDS.read(15.123_449).to_string(), "15.123");
    assert_eq!(down.told(), Clock::stepped(1.0, Rounding::Down));
}

#[test]
fn the_clock_changes_what_calls_seem_to_take_and_not_which_calls_there_are() {
    let (fine, coarse) = (stage_of(1), stage_timed_by(1, "5ms".parse().unwrap()));
    assert_eq!((fine.base.calls, fine.new.errors), (coarse.base.calls, coarse.new.errors));
    let seen = coarse.new.values().unwrap().exact().unwrap();
    assert_eq!(seen.iter().map(|(ms, _)| *ms).collect::<Vec<_>>(), [20.0, 25.0, 30.0, 35.0, 40.0]);
    let (fine, coarse) = (fine.new.values().unwrap(), coarse.new.values().unwrap());
    assert_eq!(fine.count(), coarse.count());
    assert!((fine.mean_ms().unwrap() - coarse.mean_ms().unwrap()).abs() < 0.1, "{fine:?}");
}

#[test]
fn areas_are_distinct_inside_the_box_and_follow_from_the_seed() {
    let areas = |seed| (0..500).map(|i| area_of(i, 500, seed, &BOX).get().to_owned()).collect::<Vec<_>>();
    let laid = areas(7);
    assert_eq!(laid, areas(7));
    assert_ne!(laid, areas(8));
    assert_eq!(laid.iter().collect::<HashSet<_>>().len(), 500);
    for area in &laid {
        let polygon: serde_json::Value = serde_json::from_str(area).unwrap();
        let ring: Vec<[f64; 2]> = serde_json::from_value(polygon["coordinates"][0].clone()).unwrap();
        assert_eq!(ring.first(), ring.last());
        assert!(ring.iter().all(|[x, y]| (13.3..=13.6).contains(x) && (52.4..=52.6).contains(y)), "{ring:?}");
        let doubled: f64 = ring.windows(2).map(|p| p[0][0] * p[1][1] - p[1][0] * p[0][1]).sum();
        assert!(doubled > 0.0, "outer rings run counter-clockwise");
    }
}

#[test]
fn go_durations_know_hours_to_milliseconds_and_no_days() {
    for (text, milliseconds) in [
        ("0", 0),
        ("0s", 0),
        ("10s", 10_000),
        ("1h30m", 5_400_000),
        ("1.5s", 1_500),
        ("250ms", 250),
        ("1m1s1ms", 61_001),
    ] {
        assert_eq!(read_go(text), Some(Duration::from_millis(milliseconds)), "{text}");
    }
    for text in ["", "1d", "10", "s", "-1s", "1 s", "1..5s", "1s2", "9999999999999999999h", "é"] {
        assert_eq!(read_go(text), None, "{text}");
    }
}

#[test]
fn latencies_and_boxes_are_read_or_refused_with_an_example() {
    assert_eq!("constant:8ms".parse(), Ok(Latency::Constant { ms: 8.0 }));
    assert_eq!("uniform:5ms,9ms".parse(), Ok(Latency::Uniform { from_ms: 5.0, to_ms: 9.0 }));
    assert_eq!("lognormal:8ms,0.3".parse(), Ok(Latency::LogNormal { median_ms: 8.0, sigma: 0.3 }));
    for wrong in
        ["8ms", "constant:8", "uniform:9ms,5ms", "lognormal:8ms", "lognormal:8ms,NaN", "normal:8ms,1ms"]
    {
        assert!(wrong.parse::<Latency>().is_err(), "{wrong}");
    }
    assert_eq!("13.3,52.4,13.6,52.6".parse(), Ok(BOX));
    for wrong in ["", "1,2,3", "13.6,52.4,13.3,52.6", "0,0,NaN,1", "0,0,181,1"] {
        assert!(wrong.parse::<BoundingBox>().is_err(), "{wrong}");
    }
}

#[test]
fn the_offer_of_the_recorded_session_is_read() {
    let yaml = include_str!("recorded-offer.yml");
    let offer = Offer::read(yaml).unwrap();
    assert_eq!((offer.id.as_str(), offer.functions[0].new_version.path.as_str()), ("11", "fns/sample_f2"));
    assert_eq!((offer.stages[0].new_traffic, offer.stages[0].conditions.len()), (5, 2));
    assert_eq!(offer.stages[0].minima().unwrap().duration, Duration::from_secs(10));
}
