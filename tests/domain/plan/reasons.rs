use std::collections::BTreeMap;

use model::{Capabilities, Cordon, Exclusion};

use super::{Child, members, planned, reasons, rectangle, strategy};

const BERLIN: &str = "target:
  area: {type: Polygon, coordinates: [[[13, 52], [14, 52], [14, 53], [13, 53], [13, 52]]]}
  labels: {tier: edge, zone: north}";

fn labelled(id: &str, labels: &[(&str, &str)]) -> Child {
    let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Child { labels, ..Child::at(id, &rectangle(13.1, 52.1, 13.2, 52.2)) }
}

const FITS: [(&str, &str); 2] = [("tier", "edge"), ("zone", "north")];

#[test]
fn each_child_that_is_left_out_has_its_reason() {
    let strategy = strategy(BERLIN);
    let runtimes = |names: &[&str]| {
        let runtimes = Some(names.iter().map(|name| (*name).to_owned()).collect());
        Some(Capabilities { runtimes, ..Capabilities::default() })
    };
    let list = vec![
        labelled("fits", &FITS),
        Child { is_busy: true, ..labelled("busy", &FITS) },
        Child { area: Some(rectangle(20.0, 52.0, 21.0, 53.0)), ..labelled("outside", &FITS) },
        Child { area: Some(rectangle(14.0, 52.0, 15.0, 53.0)), ..labelled("neighbour", &FITS) },
        Child { area: None, ..labelled("nowhere", &FITS) },
        Child { cordon: Cordon::Cordoned, ..labelled("cordoned", &FITS) },
        Child { cordon: Cordon::Drained, ..labelled("drained", &FITS) },
        labelled("core", &[("tier", "core"), ("zone", "north")]),
        labelled("south", &[("tier", "edge"), ("zone", "south")]),
        labelled("unlabelled", &[]),
        Child { capabilities: runtimes(&["python"]), ..labelled("python", &FITS) },
        Child { capabilities: runtimes(&["python", "nodejs"]), ..labelled("both", &FITS) },
    ];
    let (plan, children) = planned(&strategy, list);
    assert_eq!(members(&plan, &children), ["fits", "busy", "both"]);
    assert_eq!(plan.busy, 1);
    assert_eq!((plan.participants.children, plan.participants.agents), (3, 3));
    let expected = [
        ("outside the area", 2),
        ("no area known", 1),
        ("cordoned", 2),
        ("label tier is not edge", 2),
        ("label zone is not north", 1),
        ("lacks runtime nodejs", 1),
    ];
    assert_eq!(reasons(&plan, &strategy), expected.map(|(why, count)| (why.to_owned(), count)));
    let stored: Vec<Exclusion> = plan.excluded.iter().map(|(why, _)| why.exclusion()).collect();
    assert_eq!(
        stored,
        [
            Exclusion::Outside,
            Exclusion::NoArea,
            Exclusion::Cordoned,
            Exclusion::Label,
            Exclusion::Label,
            Exclusion::Runtime
        ]
    );
}

#[test]
fn who_is_not_among_the_agents_of_a_function_has_that_as_its_reason() {
    let mut strategy = strategy("");
    strategy.functions[0].agents = BTreeMap::from([("tier".to_owned(), "batch".to_owned())]);
    let python = Capabilities { runtimes: Some(vec!["python".to_owned()]), ..Capabilities::default() };
    let list = vec![
        labelled("of it", &[("tier", "batch"), ("zone", "north")]),
        labelled("of another", &[("tier", "web")]),
        labelled("unlabelled", &[]),
        Child {
            capabilities: Some(python.clone()),
            ..labelled("of another, with python", &[("tier", "web")])
        },
        Child { capabilities: Some(python), ..labelled("with python", &[("tier", "batch")]) },
    ];
    let (plan, children) = planned(&strategy, list);
    assert_eq!(members(&plan, &children), ["of it"]);
    let expected = [("lacks runtime nodejs", 1), ("is not among the agents of sieve", 3)];
    assert_eq!(reasons(&plan, &strategy), expected.map(|(why, count)| (why.to_owned(), count)));
    let stored: Vec<Exclusion> = plan.excluded.iter().map(|(why, _)| why.exclusion()).collect();
    assert_eq!(stored, [Exclusion::Runtime, Exclusion::Agent]);
}

#[test]
fn a_label_that_operators_gave_wins_over_the_reported_one() {
    let strategy = strategy("target: {labels: {tier: edge}}");
    let reports = |value: &str| {
        let labels = BTreeMap::from([("tier".to_owned(), value.to_owned())]);
        Some(Capabilities { labels, ..Capabilities::default() })
    };
    let list = vec![
        Child { capabilities: reports("edge"), ..Child::nowhere("reports it") },
        Child { capabilities: reports("edge"), ..labelled("overruled", &[("tier", "core")]) },
        Child { capabilities: reports("core"), ..labelled("corrected", &[("tier", "edge")]) },
    ];
    let (plan, children) = planned(&strategy, list);
    assert_eq!(members(&plan, &children), ["reports it", "corrected"]);
}

#[test]
fn a_target_that_nobody_lies_in_leaves_everybody_out() {
    let strategy =
        strategy("target: {area: {type: Polygon, coordinates: [[[0, 0], [1, 0], [1, 1], [0, 0]]]}}");
    let (plan, _) = planned(&strategy, vec![labelled("a", &FITS), Child::nowhere("b")]);
    assert_eq!((plan.members.len(), plan.participants.agents), (0, 0));
    assert_eq!(
        reasons(&plan, &strategy),
        [("outside the area".to_owned(), 1), ("no area known".to_owned(), 1)]
    );
    let (plan, _) = planned(&strategy, Vec::new());
    assert_eq!((plan.members.len(), plan.excluded.len()), (0, 0));
}
