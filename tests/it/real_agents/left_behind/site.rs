//! A manager, an agent with its proxy, two functions and their callers.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{sync::RwLock, task::JoinSet, time::sleep};

use super::{
    super::{
        manager::Manager,
        node::Node,
        processes,
        releases::{Form, strategy_of},
        wait::wait_until,
    },
    BINARY, NODE,
    course::Way,
    grown::Left,
    place::Place,
};
use crate::world::client;

/// Callers of each function, and how long each rests after an answer.
const CALLERS: u32 = 4;
const THINK: Duration = Duration::from_millis(4);

/// The proxy keeps what was counted for an hour otherwise, which is longer than this lasts.
const ENVIRONMENT: [(&str, &str); 1] = [("CHOIRMASTER_PROXY_COUNTS_KEEP", "1m")];

/// In what time all of a version is to be gone; less than any wait of the tests takes.
const LONGEST: Duration = Duration::from_secs(40);

/// A release that fails anywhere is taken back.
const ROLLOUT: &str = "rollout: {order: parallel, max_failed: 0, on_failure: rollback}\n";

pub struct Site {
    // In this order: callers end first, and the folder is the last to go.
    callers: Callers,
    node: Node,
    manager: Manager,
    functions: Functions,
    /// All control groups that versions had.
    groups: BTreeSet<PathBuf>,
    /// What there was before the first release.
    left: Left,
    place: Place,
}

/// The versions that serve, and how many there were.
pub struct Functions {
    folder: PathBuf,
    made: u32,
    serving: [String; 2],
}

impl Functions {
    fn new(place: &Place) -> Self {
        let folder = place.path("functions");
        fs::create_dir_all(folder.join("fns")).unwrap();
        let mut functions = Self { folder, made: 0, serving: [String::new(), String::new()] };
        functions.serving = [BINARY, NODE].map(|form| functions.make(&place.name(0), form, true));
        functions
    }

    /// A version whose content nobody else has, named after its release.
    fn make(&mut self, release: &str, form: Form, is_well: bool) -> String {
        self.made += 1;
        let name = format!("{release}v{}", self.made);
        let folder = self.content(&name);
        fs::create_dir_all(&folder).unwrap();
        let (file, text) = match (form == NODE, is_well) {
            (false, true) => ("fn.sh", format!("# {name}\nexec cat\n")),
            (false, false) => ("fn.sh", format!("# {name}\nexit 1\n")),
            (true, true) => {
                ("index.js", format!("// {name}\nmodule.exports = (req, res) => res.send(req.body);\n"))
            }
            (true, false) => {
                ("index.js", format!("// {name}\nmodule.exports = () => {{ throw new Error('broken'); }};\n"))
            }
        };
        let file = folder.join(file);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        name
    }

    fn content(&self, version: &str) -> PathBuf {
        self.folder.join("fns").join(version)
    }

    fn serving(&mut self, form: Form) -> &mut String {
        &mut self.serving[usize::from(form == NODE)]
    }
}

/// Those who call, and what went wrong with the first call with which anything did.
struct Callers {
    tasks: JoinSet<()>,
    wrong: Arc<Mutex<Option<String>>>,
    calls: Arc<AtomicU64>,
    /// Each call holds it for reading, so that whoever writes is alone.
    turn: Arc<RwLock<()>>,
}

impl Callers {
    fn start(node: &Node) -> Self {
        let mut callers = Self {
            tasks: JoinSet::new(),
            wrong: Arc::default(),
            calls: Arc::default(),
            turn: Arc::default(),
        };
        let http = client().build().unwrap();
        for (function, number) in [BINARY, NODE]
            .into_iter()
            .flat_map(|form| (0..CALLERS).map(move |number| (form.function, number)))
        {
            let url = format!("http://{}/{function}", node.at);
            let (http, wrong) = (http.clone(), Arc::clone(&callers.wrong));
            let (calls, turn) = (Arc::clone(&callers.calls), Arc::clone(&callers.turn));
            callers.tasks.spawn(async move {
                loop {
                    {
                        let _in_flight = turn.read().await;
                        let body = format!("{number} {}", calls.fetch_add(1, Ordering::Relaxed));
                        if let Err(what) = call(&http, &url, body).await {
                            wrong.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
                        }
                    }
                    sleep(THINK).await;
                }
            });
        }
        callers
    }
}

/// Is answered with its own body.
async fn call(http: &reqwest::Client, url: &str, body: String) -> Result<(), String> {
    let of = |error: reqwest::Error| format!("{url}: {error:?}");
    let answer = http.post(url).body(body.clone()).send().await.map_err(of)?;
    let status = answer.status();
    let text = answer.text().await.map_err(of)?;
    if status.is_success() && text == body {
        return Ok(());
    }
    Err(format!("{url}: {status} {text:?} for {body:?}"))
}

impl Site {
    pub async fn start(place: Place) -> Self {
        let mut functions = Functions::new(&place);
        let manager = Manager::start(&place.path("manager"), &functions.folder, &[]).await;
        let mut node = Node::of(&place.path("edge"), "edge", &manager.url(), &["agent.keep_base=0s"]);
        node.environment.extend(ENVIRONMENT);
        node.come_back();
        node.until_it_answers().await;
        manager.knows(1).await;
        // What an interrupted run had in hand ends before this one begins.
        for left in unfinished(&manager).await {
            // It may end by itself meanwhile.
            let _ = manager.order(&format!("/api/v1/releases/{left}/abort"), &json!({"by": "tester"})).await;
            manager.ended(&left).await;
        }
        node.is_at_rest().await;
        for form in [BINARY, NODE] {
            let serving = functions.serving(form).clone();
            let content = functions.content(&serving);
            node.add_function(form.function, &content, &["--retry", "failed"]);
        }
        let callers = Callers::start(&node);
        let mut site =
            Self { callers, node, manager, functions, groups: BTreeSet::new(), left: Left::default(), place };
        // A first one of each form, after which all that is made once is there.
        for form in [BINARY, NODE] {
            let name = format!("{}{}", site.place.name(0), form.function);
            site.lead(&name, form, Way::RolledOut).await;
        }
        site.left = site.settled().await;
        site
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    pub fn node(&self) -> &Node {
        &self.node
    }

    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    pub fn calls(&self) -> u64 {
        self.callers.calls.load(Ordering::Relaxed)
    }

    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// What went wrong first with any call.
    pub fn wrong(&self) -> Option<String> {
        self.callers.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Leads a release to its end.
    pub async fn release(&mut self, number: u32, form: Form, way: Way) {
        let name = self.place.name(number + 1);
        self.lead(&name, form, way).await;
        assert_eq!(self.wrong(), None, "in release {number}, {form:?}, {way:?}");
    }

    async fn lead(&mut self, name: &str, form: Form, way: Way) {
        let base = self.functions.serving(form).clone();
        let new = self.functions.make(name, form, way.is_well());
        let text = strategy_of(form, name, [&base, &new], &way.stages(), ROLLOUT);
        self.manager.submit(&text).await;
        match way {
            Way::Aborted => {
                self.node
                    .until("the new version is tried", |status| {
                        status
                            .functions
                            .iter()
                            .any(|one| one.candidate.as_ref().is_some_and(|new| new.calls > 0))
                    })
                    .await;
                self.note_groups();
                self.manager.act(name, "abort").await;
            }
            Way::AbortedAtOnce => self.manager.act(name, "abort").await,
            Way::RolledOut | Way::InTwoStages | Way::TakenBack => {}
        }
        let ended = self.manager.ended(name).await;
        assert_eq!(ended["state"], way.ends(), "{way:?}: {ended:#}\n{}", self.node.what_it_said());
        self.node.is_at_rest().await;
        self.note_groups();
        let unused =
            if way.ends() == "Done" { std::mem::replace(self.functions.serving(form), new) } else { new };
        fs::remove_dir_all(self.functions.content(&unused)).unwrap();
        // Nobody reads here what each call was.
        File::create(self.node.access_log()).unwrap();
    }

    /// Remembers the control groups of all versions that run.
    fn note_groups(&mut self) {
        self.groups.extend(groups(&self.node.folder));
    }

    /// What there is while no call is in flight, once nothing is in hand.
    async fn settled(&self) -> Left {
        let _alone = self.callers.turn.write().await;
        self.node.is_at_rest().await;
        let mut left = Left::default();
        wait_until("versions that nobody needs are gone", async || {
            left = Left::find(&self.node.folder);
            left.runs == 2
        })
        .await;
        left
    }

    /// All is as before the first release, but for which versions serve.
    pub async fn nothing_is_left(&self, number: u32) {
        let _alone = self.callers.turn.write().await;
        let mut now = Left::default();
        let what = format!("nothing is left behind by release {number}");
        let is_so = async || {
            now = Left::find(&self.node.folder);
            now == self.left
        };
        let waited = tokio::time::timeout(LONGEST, wait_until(&what, is_so)).await;
        assert!(waited.is_ok(), "{what}, but {}", now.beyond(&self.left));
        let running = groups(&self.node.folder);
        let gone = self.groups.iter().filter(|group| !running.contains(*group));
        let there: Vec<_> = gone.filter(|group| group.exists()).collect();
        assert!(there.is_empty(), "after release {number} there are control groups of others: {there:?}");
    }

    /// An agent that is told to end ends.
    pub async fn end(mut self) {
        assert_eq!(self.node.terminate().await.code(), Some(0));
        self.callers.tasks.shutdown().await;
    }
}

/// Releases that are not over, by their names.
async fn unfinished(manager: &Manager) -> Vec<String> {
    let shown = manager.get("/api/v1/releases").await.unwrap();
    let names = shown["items"].as_array().cloned().unwrap_or_default();
    let mut open = Vec::new();
    for name in names.iter().filter_map(|release| release["id"].as_str()) {
        if !manager.is_over(name).await {
            open.push(name.to_owned());
        }
    }
    open
}

/// Control groups of the versions that run, as their runs have them written down.
fn groups(edge: &Path) -> BTreeSet<PathBuf> {
    let runs = fs::read_dir(edge.join("state/run/runs")).unwrap().flatten();
    let specs = runs.filter_map(|run| fs::read(run.path().join("run.json")).ok());
    let groups = specs.filter_map(|text| {
        let spec: Value = serde_json::from_slice(&text).ok()?;
        Some(spec["groups"].as_array()?.clone())
    });
    groups.flatten().filter_map(|group| Some(group["folder"].as_str()?.into())).collect()
}

/// Processes that have to do with the site, but for the manager.
pub fn processes_of(edge: &Path) -> Vec<String> {
    processes::with(edge.to_str().unwrap()).into_iter().map(|one| one.arguments).collect()
}
