//! `choirmaster plan`: who would take part in a release, before anything happens.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    client::{self, CallError, Client, Connection},
    failure::Failure,
    printable::{Passes, Printable},
    release::submit::{body, refused, rendered},
    required_calls,
    routing::form::percent,
    show,
    source::{Source, SourceSpec},
};
use protocol::api::{Plan, PlannedCanary, PlannedChild, PlannedGroup, PlannedShare, WithoutSurface};

/// Children asked for at once.
const PAGE: usize = 1_000;

/// Colours of participants on a map, by wave or turn; the last is for all that follow (Okabe and Ito, 2008: told
/// apart by everybody).
const COLOURS: [&str; 6] = ["#0072B2", "#56B4E9", "#009E73", "#F0E442", "#E69F00", "#CC79A7"];

/// The colour of those who take no part.
const GREY: &str = "#999999";

/// Show who would take part in a release and in which wave, and why the others would not.
///
/// Nothing happens: the manager plans the release on the children that it has now. Of a manifest of kind CanaryRelease it plans
/// the strategy that this becomes. If the canary is there already, it says what submitting
/// the manifest would change.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    choirmaster plan releases/area.yml\n  \
    choirmaster plan releases/area.yml --all --limit 1000\n  \
    choirmaster plan releases/waves.yml --geojson plan.geojson\n  \
    choirmaster plan checkout-2.yml                        what a canary begins with, or becomes")]
pub struct Args {
    /// The strategy, or a folder that holds release.yml and fns.zip; - reads standard input
    #[arg(value_name = "FILE|DIR")]
    file: String,
    #[command(flatten)]
    wanted: SourceSpec,
    /// List every child with its wave, or the reason why it takes no part
    #[arg(long)]
    all: bool,
    /// List at most so many
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = client::most)]
    limit: usize,
    /// Write target and children to a file that any map tool can show
    #[arg(long, value_name = "OUT")]
    geojson: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub async fn run(args: &Args, out: &mut impl Write) -> Result<u8, Failure> {
    let client = Client::new(&args.connection)?;
    let source = Source::find(&args.file, &args.wanted)?;
    let archive = source.archive()?;
    let asked = PlanRequest { client: &client, source: &source, archive: archive.as_deref(), areas: false };
    let wanted = if args.all { args.limit } else { 0 };
    let mut plan = asked.page(None, wanted.min(PAGE)).await.map_err(|error| refused(error, &source.file))?;
    while plan.children.len() < wanted
        && let Some(after) = plan.next.take()
    {
        let page = asked.page(Some(&after), (wanted - plan.children.len()).min(PAGE)).await?;
        plan.children.extend(page.children);
        plan.next = page.next;
    }
    for warning in &plan.warnings {
        writeln!(Printable::stderr(Passes::None), "{}\n", rendered(warning, &source.file))?;
    }
    if args.json {
        show::json(out, &plan)?;
    } else {
        write!(out, "{}", text_of(&plan, args.all))?;
    }
    if let Some(path) = &args.geojson {
        let count = map(&PlanRequest { areas: true, ..asked }, path).await?;
        let children = show::counted(count, "child", "children");
        writeln!(io::stderr(), "{children} and the target are in {}", path.display())?;
    }
    Ok(0)
}

/// What is asked of the manager.
#[derive(Clone, Copy)]
struct PlanRequest<'a> {
    client: &'a Client,
    source: &'a Source,
    /// `None`: the manager has the functions.
    archive: Option<&'a [u8]>,
    areas: bool,
}

impl PlanRequest<'_> {
    /// The plan with a page of children, or with none.
    async fn page(&self, after: Option<&str>, limit: usize) -> Result<Plan, CallError> {
        let mut query = vec![("children", if limit == 0 { "none" } else { "all" }.to_owned())];
        query.extend((limit > 0).then(|| ("limit", limit.to_string())));
        query.extend(after.map(|after| ("after", after.to_owned())));
        query.extend(self.areas.then(|| ("areas", "true".to_owned())));
        let request = self.client.request(Method::POST, &["api", "v1", "plan"]).query(&query);
        // The functions are looked at with the first page.
        let archive = self.archive.filter(|_| after.is_none()).map(<[u8]>::to_vec);
        self.client.post(body(request, self.source.text.clone(), archive)).await
    }
}

fn text_of(plan: &Plan, all: bool) -> String {
    if let Some(canary) = &plan.canary {
        let all =
            if all { format!("\n{}{}", list(plan), show::rest(plan.next.is_some())) } else { String::new() };
        return outlook(plan, canary) + &all;
    }
    let mut text = summary(plan);
    text.push_str(&remarks(plan));
    if !plan.stages.is_empty() {
        text.extend(["\n".to_owned(), stages(plan)]);
    }
    if !plan.waves.is_empty() {
        text.extend(["\n".to_owned(), waves(plan)]);
    }
    if !plan.alpha.is_empty() {
        text.extend(["\n".to_owned(), analyses(plan)]);
    }
    text.push_str(&required_calls::of(plan));
    if !plan.excluded.is_empty() {
        text.extend(["\n".to_owned(), excluded(plan)]);
    }
    if all {
        let rest = show::rest(plan.next.is_some()).to_owned();
        text.extend(["\n".to_owned(), list(plan), rest]);
    }
    text
}

/// What would become of a canary that is there.
fn outlook(plan: &Plan, PlannedCanary { changed, shares, follows }: &PlannedCanary) -> String {
    let would = match changed {
        Some(changed) => format!("would be changed: {}", show::one_line(changed)),
        None => "nothing would change".to_owned(),
    };
    let mut text = format!("{} is there already, and {would}\n", plan.id);
    for PlannedShare { part, from, to } in shares {
        let part = show::one_line(part);
        text.extend([format!("  calls to {part}: {} now, {} then\n", percent(*from), percent(*to))]);
    }
    text.extend(follows.iter().map(|sentence| format!("  {}\n", show::one_line(sentence))));
    text
}

/// Who takes part, and how much of the target that is.
fn summary(plan: &Plan) -> String {
    let PlannedGroup { children, agents, km2 } = plan.participants;
    let who = show::counted(children.into(), "child takes part", "children take part");
    let agents = show::counted(agents, "agent", "agents");
    let mut text = format!("{}: {who}, {agents}, {}\n", plan.id, size(km2));
    if let Some(target) = plan.target_km2 {
        let within = plan
            .within_km2
            .map_or_else(String::new, |within| format!("; {} of theirs lie in it", size(within)));
        text.extend([format!("  the target has {}{within}\n", size(target))]);
    }
    if let (Some(to), Some(beyond)) = (&plan.forwards_to, plan.beyond_km2) {
        text.extend([format!(
            "  it goes to the manager above ({}): {} of the target lie beyond this one's area;\n  what follows is what this \
             one could do of it\n",
            show::one_line(to),
            size(beyond)
        )]);
    }
    if let Some(order) = &plan.order {
        text.extend([format!("  order: {order}\n")]);
    }
    text
}

/// What differs from a plan in which all can begin at once.
fn remarks(plan: &Plan) -> String {
    let mut text = String::new();
    if plan.partial > 0 {
        let some = show::counted(plan.partial.into(), "of them runs", "of them run");
        text.extend([format!("  {some} only some of the functions; --all says which\n")]);
    }
    if plan.busy > 0 {
        let busy = show::counted(plan.busy.into(), "of them has", "of them have");
        text.extend([format!("  {busy} a part in another release, and will be offered this one after it\n")]);
    }
    if plan.silent > 0 {
        let silent = show::counted(plan.silent.into(), "agent was", "agents were");
        text.extend([format!("  {silent} not heard of for too long, and would come last\n")]);
    }
    if !plan.not_asked.is_empty() {
        let managers = show::counted(plan.not_asked.len() as u64, "manager", "managers");
        let named: Vec<String> = plan.not_asked.iter().map(|id| show::one_line(id)).collect();
        text.extend([format!(
            "  at most: {managers} below didn't say who can take part ({})\n",
            named.join(", ")
        )]);
    }
    if !plan.waits_for.is_empty() {
        text.extend([format!("  it would wait for {}\n", plan.waits_for.join(", "))]);
    }
    if let Some(WithoutSurface { children, names }) = &plan.without_surface {
        let who = show::counted((*children).into(), "child reports", "children report");
        let more = if names.len() < *children as usize { ", …" } else { "" };
        let names = show::one_line(&names.join(", "));
        text.extend([format!(
            "  warning: {who} an area without any surface, which no target can meet: {names}{more}\n"
        )]);
    }
    text
}

fn stages(plan: &Plan) -> String {
    let rows = plan.stages.iter().map(|stage| {
        let shares = show::percents(&stage.shares);
        vec![stage.stage.clone(), show::subject(&stage.changes), shares, format!("{} %", stage.moved)]
    });
    show::table(&["STAGE", "CHANGES", "CALLS GO TO", "USERS MOVED"], rows)
}

fn waves(plan: &Plan) -> String {
    let rows = plan.waves.iter().map(|wave| {
        let numbers = [wave.children, wave.agents, wave.agents_so_far].map(|n| n.to_string());
        let group = wave.group.iter().map(|group| show::one_line(group));
        group.chain([wave.wave.to_string(), wave.amount.clone()]).chain(numbers).collect()
    });
    if plan.waves.iter().any(|wave| wave.group.is_some()) {
        return show::table(&["OF", "WAVE", "UP TO", "CHILDREN BEGIN", "AGENTS", "SO FAR"], rows);
    }
    show::table(&["WAVE", "UP TO", "CHILDREN BEGIN", "AGENTS", "AGENTS SO FAR"], rows)
}

fn analyses(plan: &Plan) -> String {
    let rows = plan.alpha.iter().map(|share| {
        let of = share.stage.as_ref().map_or("the release".to_owned(), |stage| format!("stage {stage}"));
        vec![of, share.metric.clone(), share.strategy.clone(), format!("{:.4}", share.alpha)]
    });
    show::table(&["ANALYSIS OF", "METRIC", "STRATEGY", "ALPHA"], rows)
}

fn excluded(plan: &Plan) -> String {
    let rows = plan.excluded.iter().map(|excluded| {
        let PlannedGroup { children, agents, km2 } = excluded.group;
        vec![excluded.reason.clone(), children.to_string(), agents.to_string(), whole(km2)]
    });
    show::table(&["TAKES NO PART", "CHILDREN", "AGENTS", "KM²"], rows)
}

fn list(plan: &Plan) -> String {
    let rows = plan.children.iter().map(|child| {
        vec![
            child.child.clone(),
            show::or_dash(child.name.as_deref().or(child.place.as_deref())),
            child.agents.to_string(),
            child.km2.map_or_else(|| "-".to_owned(), whole),
            turn(child),
            remark(child),
        ]
    });
    show::table(&["CHILD", "NAME OR PLACE", "AGENTS", "KM²", "TURN", ""], rows)
}

/// When its turn is, in a word.
fn turn(child: &PlannedChild) -> String {
    match (child.takes_part, child.wave, child.last_wave, child.turn) {
        (false, ..) => "-".to_owned(),
        (true, Some(wave), Some(last), _) if last > wave => format!("waves {wave} to {last}"),
        (true, Some(wave), ..) => format!("wave {wave}"),
        (true, _, _, Some(turn)) => turn.to_string(),
        (true, ..) => "at once".to_owned(),
    }
}

fn remark(child: &PlannedChild) -> String {
    let mut remarks = Vec::new();
    remarks.extend(child.reason.clone());
    remarks.extend(child.metres.map(|metres| format!("{:.1} km away", metres / 1_000.0)));
    remarks.extend(child.functions.as_ref().map(|functions| format!("only {}", functions.join(", "))));
    remarks
        .extend((!child.busy_with.is_empty()).then(|| format!("busy with {}", child.busy_with.join(", "))));
    remarks.join("; ")
}

fn size(km2: f64) -> String {
    format!("{} km²", whole(km2))
}

/// Rounded so that neither a field nor a country is 0 or full of digits.
fn whole(km2: f64) -> String {
    if km2 >= 100.0 { format!("{km2:.0}") } else { format!("{km2:.2}") }
}

/// Writes the picture, page by page; answers how many children are in it.
async fn map(asked: &PlanRequest<'_>, path: &Path) -> Result<u64, Failure> {
    let wrong = |error: io::Error| Failure::user(format!("{} can't be written: {error}", path.display()));
    let mut file = BufWriter::new(File::create(path).map_err(wrong)?);
    let target = language::check_bytes(&asked.source.text)
        .strategy
        .and_then(|strategy| strategy.target)
        .and_then(|target| target.area);
    let mut features: Vec<Value> = Vec::new();
    features.extend(target.map(|area| {
        json!({"type": "Feature", "geometry": {"type": "MultiPolygon", "coordinates": area},
            "properties": {"role": "target", "stroke": "#D55E00", "stroke-width": 3, "fill-opacity": 0}})
    }));
    let mut after: Option<String> = None;
    let mut written = 0;
    let mut count = 0;
    file.write_all(b"{\"type\":\"FeatureCollection\",\"features\":[").map_err(wrong)?;
    loop {
        let page = asked.page(after.as_deref(), PAGE).await?;
        count += page.children.len() as u64;
        features.extend(page.children.into_iter().map(feature));
        for feature in features.drain(..) {
            let comma = if written == 0 { "\n" } else { ",\n" };
            written += 1;
            write!(file, "{comma}{feature}").map_err(wrong)?;
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    file.write_all(b"\n]}\n").and_then(|()| file.flush()).map_err(wrong)?;
    Ok(count)
}

/// A child on the map, coloured as many tools understand it (simplestyle).
fn feature(mut child: PlannedChild) -> Value {
    let geometry = child.area.take().unwrap_or(Value::Null);
    let place = child.wave.map_or(0, |wave| wave as usize - 1).min(COLOURS.len() - 1);
    let colour = if child.takes_part { COLOURS[place] } else { GREY };
    let mut properties = json!(child);
    if let Value::Object(map) = &mut properties {
        map.insert("role".to_owned(), json!("child"));
        map.insert("fill".to_owned(), json!(colour));
        map.insert("stroke".to_owned(), json!(colour));
    }
    json!({"type": "Feature", "geometry": geometry, "properties": properties})
}
