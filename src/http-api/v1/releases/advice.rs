//! What is probably meant otherwise, said where it stands in the strategy.

use std::sync::Arc;

use crate::{Context, context::PATIENCE};
use domain::{
    plan::{self, Advice, Takeover},
    release::lifecycle,
};
use engine::EngineError;
use language::{Diagnostic, Severity, Strategy, TextPlaces, nearest};

/// Asks the children about a strategy.
pub async fn ask(
    ctx: &Context,
    strategy: &Arc<Strategy>,
    places: &TextPlaces,
) -> Result<Vec<Diagnostic>, EngineError> {
    let asked = Arc::clone(strategy);
    let advice = ctx.engine.read_apart(PATIENCE, move |state| {
        let planned = plan::plan(&asked, state);
        Advice {
            taken_over: lifecycle::taken_over(state, &asked, &planned),
            shared_ports: lifecycle::shared_ports(state, &asked, &planned),
            without_port: lifecycle::without_port(state, &asked, &planned),
            ..plan::advise(&asked, state, &planned)
        }
    });
    Ok(warnings(strategy, places, &advice.await?))
}

/// In words.
pub fn warnings(strategy: &Strategy, places: &TextPlaces, advice: &Advice) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if let (Some(children), Some(place)) = (advice.swapped, &places.area) {
        let lie = if children == 1 { "1 child lies".to_owned() } else { format!("{children} children lie") };
        let message = format!("no child lies in this area; with latitude and longitude swapped {lie} in it");
        let fix = "GeoJSON has the longitude first, as in [13.4, 52.52] for Berlin: swap the two";
        found.push(place.fault(Severity::Warning, "swapped-coordinates", message, fix));
    }
    found.extend(plan::stops(strategy, places, advice));
    found.extend(plan::drawn_apart(strategy, places, advice));
    found.extend(of_ports(strategy, places, advice));
    if advice.runtimes.is_empty() {
        return found;
    }
    let have: Vec<&str> = advice.runtimes.iter().map(String::as_str).collect();
    for (function, places) in strategy.functions.iter().zip(&places.versions) {
        for (version, place) in [&function.base, &function.new].into_iter().zip(places) {
            if advice.runtimes.contains(&version.env) {
                continue;
            }
            let message = format!("no child says that it has the runtime {:?}", version.env);
            let fix = match nearest(&version.env, have.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("the children have {}", have.join(", ")),
            };
            found.push(place.env.fault(Severity::Warning, "runtime-nobody-has", message, fix));
        }
    }
    found
}

/// What routers say of the ports that services are to have.
fn of_ports(strategy: &Strategy, places: &TextPlaces, advice: &Advice) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let at_routers = |routers: u32| match routers {
        1 => "a router".to_owned(),
        routers => format!("{routers} routers"),
    };
    for (&(at, port), (routers, has)) in &advice.without_port {
        let (Some(service), Some(place)) = (strategy.services.get(at), places.services.get(at)) else {
            continue;
        };
        let routers = at_routers(*routers);
        let message = format!("{} can't have port {port} at {routers}: {has}", service.name());
        let fix = "have a router take calls there, or take another port: a release is refused so";
        found.push(place.fault(Severity::Warning, "port-taken", message, fix));
    }
    for (&(at, port, way), routers) in &advice.taken_over {
        let (Some(service), Some(place)) = (strategy.services.get(at), places.services.get(at)) else {
            continue;
        };
        let at_routers = at_routers(*routers);
        let (by, fix) = match way {
            Takeover::Socket => (
                "a socket",
                "let the other program close its own once a canary is under way, and open it again before the service is led no more: \
                 until then it takes a part of the calls, past the router",
            ),
            Takeover::Nftables => {
                ("rules of nftables", "have the proxy listen there itself where no other program is to go on")
            }
        };
        let message = format!(
            "calls to port {port} of {} are taken over from whoever has it, by {by}, at {at_routers}, as long as the service is led there",
            service.name()
        );
        found.push(place.fault(Severity::Warning, "taken-over", message, fix));
    }
    for (&(at, port), routers) in &advice.shared_ports {
        let (Some(service), Some(place)) = (strategy.services.get(at), places.services.get(at)) else {
            continue;
        };
        let at_routers = at_routers(*routers);
        let message = format!(
            "another program takes a part of the calls to port {port} of {}, past {at_routers}: weights aren't those of all calls",
            service.name()
        );
        let fix = "let that program close the port, or end it";
        found.push(place.fault(Severity::Warning, "port-shared", message, fix));
    }
    found
}
