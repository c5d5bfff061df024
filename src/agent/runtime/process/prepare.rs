//! Making the folder of a run.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use proxy::live::Target;

use super::{
    super::{Order, error::Fault},
    cgroup::{Groups, Hierarchies},
    content,
    run::{FORMAT, MARK, Run, Spec},
    runner::{PROGRAM_FILE, Runner, SOCKET},
    sandbox::{Sandbox, SandboxedVersion},
};

/// What is prepared in a folder of its own, which gets its name at the end.
#[derive(Debug)]
pub(super) struct Place<'a> {
    /// Where it is made.
    pub made: PathBuf,
    /// Where it will be.
    pub run: &'a Run,
    pub shim: &'a [String],
    pub ports: (u16, u16),
    pub cgroups: &'a Hierarchies,
    pub sandbox: Option<&'a dyn Sandbox>,
}

/// Where the programs of a machine are, whatever an environment says.
pub(in super::super) const SEARCHED: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Makes the folder of a run, all but its name. Blocks meanwhile.
pub(super) fn prepare(order: &Order, place: &Place) -> Result<Runner, Fault> {
    let runner = Runner::of(order.runner.as_deref(), &order.folder)?;
    match place.sandbox {
        Some(sandbox) if !sandbox.forms().contains(&runner.name()) => {
            return Err(runner.not_sandboxed(&sandbox.forms(), sandbox.place()));
        }
        None if runner.interpreter().is_none() => return Err(runner.missing()),
        Some(_) | None => {}
    }
    let (made, doing) =
        (Run::at(place.made.clone()), |path: &Path| Fault::io(format!("making {}", path.display())));
    let folder = |path: PathBuf| fs::DirBuilder::new().mode(0o700).create(&path).map_err(doing(&path));
    folder(place.made.clone())?;
    folder(made.scratch())?;
    content::copy(&order.folder, &made.content(), order.limits.room)?;
    if let Some((name, text)) = runner.source() {
        let path = place.made.join(name);
        write(&path, text.as_bytes()).map_err(doing(&path))?;
    }
    if runner == Runner::Program {
        let program = made.content().join(PROGRAM_FILE);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).map_err(doing(&program))?;
    }
    if let (Runner::Image, Some(sandbox)) = (runner, place.sandbox) {
        sandbox.check_image(&made.content())?;
        // Whoever an image runs as. Above it, nobody else comes in.
        let scratch = made.scratch();
        fs::set_permissions(&scratch, fs::Permissions::from_mode(0o1777)).map_err(doing(&scratch))?;
    }
    Ok(runner)
}

/// Writes down what the shim runs, and gives the folder its name. One at a time: a port that is chosen is taken by that.
pub(super) fn name(order: &Order, runner: Runner, place: &Place) -> Result<(), Fault> {
    let target = if runner.listens_on_a_port() {
        let taken = taken_ports(place.run);
        Target::Tcp(free_port(place.ports, &taken).ok_or(Fault::NoPort(place.ports.0, place.ports.1))?)
    } else {
        Target::Unix(place.run.function_socket())
    };
    let mut spec = spec(order, runner, place, &target);
    if let Some(sandbox) = place.sandbox {
        start_in(sandbox, (order, runner), &mut spec, place)?;
    }
    let path = Run::at(place.made.clone()).spec_file();
    let written =
        serde_json::to_vec_pretty(&spec).map_err(io::Error::from).and_then(|text| write(&path, &text));
    written.map_err(Fault::io(format!("writing {}", path.display())))?;
    fs::rename(&place.made, place.run.folder())
        .map_err(Fault::io(format!("naming {}", place.run.folder().display())))
}

/// Has a version started in a sandbox.
fn start_in(
    sandbox: &dyn Sandbox,
    (order, runner): (&Order, Runner),
    spec: &mut Spec,
    place: &Place,
) -> Result<(), Fault> {
    let started = sandbox.start_options(&SandboxedVersion {
        order,
        folder: place.run.folder(),
        content: place.run.content(),
        scratch: place.run.scratch(),
        socket: place.run.function_socket(),
        made: Run::at(place.made.clone()).content(),
        mark: &spec.mark,
        is_image: runner == Runner::Image,
        environment: &spec.environment,
    })?;
    // What is meant for a version is not for what starts or serves it.
    spec.environment.retain(|name, _| ["LANG", MARK].contains(&name.as_str()));
    spec.environment.insert("PATH".to_owned(), SEARCHED.to_owned());
    spec.environment.extend(started.environment);
    (spec.program, spec.arguments, spec.removal) = (started.program, started.arguments, started.removal);
    let (name, text) = started.file;
    let path = place.made.join(name);
    write(&path, &text).map_err(Fault::io(format!("writing {}", path.display())))
}

/// Writes a file that nobody else may read.
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text)
}

fn spec(order: &Order, runner: Runner, place: &Place, target: &Target) -> Spec {
    let mark = format!("{:032x}", fastrand::u128(..));
    let beside = |name: &str| place.run.folder().join(name).display().to_string();
    let old_space = order.limits.memory / (1024 * 1024) * 3 / 4;
    let (program, arguments) = match runner {
        Runner::Nodejs => {
            let limit = format!("--max-old-space-size={}", old_space.max(16));
            (runner.interpreter().unwrap_or_default(), vec![limit, beside("runner.js")])
        }
        Runner::Python => {
            let arguments = ["-u", "-B", &beside("runner.py")].map(str::to_owned);
            (runner.interpreter().unwrap_or_default(), arguments.to_vec())
        }
        Runner::Binary => {
            let role = std::iter::once("binary".to_owned());
            (PathBuf::from("/proc/self/exe"), place.shim.iter().cloned().chain(role).collect())
        }
        // Its sandbox has a command line of its own.
        Runner::Program | Runner::Image | Runner::Wasm => {
            (place.run.content().join(PROGRAM_FILE), Vec::new())
        }
    };
    let is_whole = place.sandbox.is_some_and(Sandbox::leaves_groups);
    Spec {
        groups: Groups::of(place.cgroups, &mark, &order.limits, is_whole),
        format: FORMAT,
        version: order.version.clone(),
        removal: Vec::new(),
        environment: environment(order, place, target, &mark),
        mark,
        runner: runner.name().to_owned(),
        program,
        arguments,
        target: target.to_string(),
        limits: order.limits.clone(),
        shim: place.shim.to_vec(),
    }
}

/// Nothing of the agent's own environment but where programs are: it may hold secrets.
fn environment(order: &Order, place: &Place, target: &Target, mark: &str) -> BTreeMap<String, String> {
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned());
    let mut all: BTreeMap<String, String> = [
        ("PATH", path),
        ("LANG", "C.UTF-8".to_owned()),
        ("HOME", place.run.content().display().to_string()),
        ("TMPDIR", place.run.scratch().display().to_string()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    all.extend(order.environment.clone());
    let where_to_listen = match target {
        Target::Tcp(address) | Target::Below { address, .. } => {
            vec![("HOST", address.ip().to_string()), ("PORT", address.port().to_string())]
        }
        Target::Unix(path) => vec![(SOCKET, path.display().to_string())],
    };
    let ours = [("CHOIRMASTER_VERSION", order.version.to_string()), (MARK, mark.to_owned())];
    all.extend(where_to_listen.into_iter().chain(ours).map(|(name, value)| (name.to_owned(), value)));
    all
}

/// The ports of all runs beside this one. One that is free now may be that of a function between two lives.
fn taken_ports(run: &Run) -> HashSet<u16> {
    let beside = run.folder().parent().and_then(|all| fs::read_dir(all).ok());
    let specs = beside.into_iter().flatten().flatten().filter_map(|entry| Run::at(entry.path()).spec().ok());
    specs.filter_map(|spec| spec.target.parse::<SocketAddr>().ok()).map(|target| target.port()).collect()
}

fn free_port((from, to): (u16, u16), taken: &HashSet<u16>) -> Option<SocketAddr> {
    let many = u32::from(to.saturating_sub(from)) + 1;
    let first = fastrand::u32(0..many);
    let candidates = (0..many).map(|step| from + ((first + step) % many) as u16);
    candidates
        .filter(|port| !taken.contains(port))
        .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .find(|address| TcpListener::bind(address).is_ok())
}
