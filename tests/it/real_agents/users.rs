//! Variations that somebody else runs, here the test, and users who call them through routers.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
};

/// So many users call, each over a connection of its own at each router.
pub const USERS: usize = 60;

/// A variation: answers with its name, or with an error while it is bad.
pub struct Backend {
    pub at: SocketAddr,
    pub is_bad: Arc<AtomicBool>,
    pub calls: Arc<AtomicU64>,
    // Ends with the test.
    _serving: JoinSet<()>,
}

impl Backend {
    pub fn start(name: char) -> Self {
        // With room for all who connect at once on a busy machine: who finds none tries again after a second, and is given up by then.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let listener = socket.listen(4_096).unwrap();
        let at = listener.local_addr().unwrap();
        let (is_bad, calls) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut serving = JoinSet::new();
        let (bad, counted) = (Arc::clone(&is_bad), Arc::clone(&calls));
        serving.spawn(serve(listener, name, bad, counted));
        Self { at, is_bad, calls, _serving: serving }
    }

    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// Answers whoever calls with a name, for as long as anybody can.
pub async fn serve(listener: TcpListener, name: char, is_bad: Arc<AtomicBool>, calls: Arc<AtomicU64>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(answer(stream, name, Arc::clone(&is_bad), Arc::clone(&calls)));
        while connections.try_join_next().is_some() {}
    }
}

/// Answers the calls of one connection.
pub async fn answer(mut stream: TcpStream, name: char, is_bad: Arc<AtomicBool>, calls: Arc<AtomicU64>) {
    let mut came = Vec::new();
    let mut room = [0; 2048];
    loop {
        while let Some(end) = came.windows(4).position(|end| end == b"\r\n\r\n") {
            came.drain(..end + 4);
            calls.fetch_add(1, Ordering::Relaxed);
            let status = if is_bad.load(Ordering::Relaxed) { "500 Broken" } else { "200 OK" };
            let text = format!("HTTP/1.1 {status}\r\nContent-Length: 1\r\n\r\n{name}");
            if stream.write_all(text.as_bytes()).await.is_err() {
                return;
            }
        }
        match stream.read(&mut room).await {
            Ok(0) | Err(_) => return,
            Ok(read) => came.extend_from_slice(&room[..read]),
        }
    }
}

/// What users were answered last, and how often they were answered, by router and user.
type Seen = Arc<Mutex<BTreeMap<(usize, usize), (char, u64)>>>;

/// Users who call all the time, without any repeat of their own.
pub struct Users {
    seen: Seen,
    lost: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
    calling: JoinSet<()>,
}

impl Users {
    pub fn call(routers: &[SocketAddr]) -> Self {
        Self::calling(routers, true, Duration::from_millis(10))
    }

    /// Those who keep their connections, or have another one for each call, with so long a pause between two.
    pub fn calling(routers: &[SocketAddr], keep: bool, pause: Duration) -> Self {
        let (seen, lost, is_over) = (Seen::default(), Arc::default(), Arc::<AtomicBool>::default());
        let mut users = Self { seen, lost, is_over, calling: JoinSet::new() };
        for (router, &at) in routers.iter().enumerate() {
            for user in 0..USERS {
                let (seen, lost) = (Arc::clone(&users.seen), Arc::clone(&users.lost));
                let is_over = Arc::clone(&users.is_over);
                users.calling.spawn(async move {
                    let (mut connection, mut cookie) = (None, None);
                    while !is_over.load(Ordering::Relaxed) {
                        match call(&mut connection, &mut cookie, at, user, keep).await {
                            Ok(name) => {
                                let mut seen = seen.lock().unwrap();
                                let answers = seen.get(&(router, user)).map_or(0, |(_, answers)| *answers);
                                seen.insert((router, user), (name, answers + 1));
                            }
                            Err(why) => lost.lock().unwrap().push(format!("user {user} at {at}: {why}")),
                        }
                        tokio::time::sleep(pause).await;
                    }
                });
            }
        }
        users
    }

    /// Each user has made a call, and was answered, by then.
    pub async fn round(&self) {
        let before = self.seen.lock().unwrap().clone();
        super::wait::wait_until("users are answered", async || {
            let seen = self.seen.lock().unwrap();
            // Of the first answer the call may have been made before.
            let is_answered = |(key, (_, answers)): (&(usize, usize), &(char, u64))| {
                *answers >= before.get(key).map_or(0, |(_, answers)| *answers) + 2
            };
            seen.len() == self.calling.len() && seen.iter().all(is_answered)
        })
        .await;
    }

    /// The users whom a router gives a variation.
    pub fn of(&self, router: usize, variation: char) -> BTreeSet<usize> {
        let seen = self.seen.lock().unwrap();
        let of = seen.iter().filter(|((of, _), (name, _))| *of == router && *name == variation);
        of.map(|((_, user), _)| *user).collect()
    }

    /// The users whom both routers give the second variation, once these are the same and more than so many: what was decided is in
    /// force at either in its own time.
    pub async fn same(&self, more_than: usize) -> BTreeSet<usize> {
        super::wait::wait_until("a user gets the same at either router", async || {
            self.round().await;
            let of_first = self.of(0, 'B');
            of_first.len() > more_than && of_first == self.of(1, 'B')
        })
        .await;
        self.of(0, 'B')
    }

    pub async fn end(self) {
        let answered: u64 = self.seen.lock().unwrap().values().map(|(_, answers)| answers).sum();
        assert_eq!(self.lost().await, [""; 0], "of {answered}");
    }

    /// Ends them, and says which calls were not answered well.
    pub async fn lost(self) -> Vec<String> {
        self.is_over.store(true, Ordering::Relaxed);
        self.calling.join_all().await;
        self.lost.lock().unwrap().clone()
    }
}

/// One call, over the connection of the one before where that goes on, and with the cookie that it gave.
pub async fn call(
    connection: &mut Option<TcpStream>,
    cookie: &mut Option<String>,
    at: SocketAddr,
    user: usize,
    keep: bool,
) -> Result<char, String> {
    let mut stream = match connection.take() {
        Some(stream) => stream,
        None => TcpStream::connect(at).await.map_err(|error| error.to_string())?,
    };
    let close = if keep { "" } else { "Connection: close\r\n" };
    let held = cookie.as_ref().map(|cookie| format!("Cookie: {cookie}\r\n")).unwrap_or_default();
    let text = format!("GET /basket HTTP/1.1\r\nHost: shop\r\n{close}{held}X-User: user-{user}\r\n\r\n");
    stream.write_all(text.as_bytes()).await.map_err(|error| error.to_string())?;
    let (mut came, mut room) = (Vec::new(), [0; 2048]);
    let end = loop {
        if let Some(end) = came.windows(4).position(|end| end == b"\r\n\r\n")
            && came.len() > end + 4
        {
            break end;
        }
        match stream.read(&mut room).await {
            Ok(0) => return Err("the connection ended before the answer".to_owned()),
            Ok(read) => came.extend_from_slice(&room[..read]),
            Err(error) => return Err(error.to_string()),
        }
    };
    let head = String::from_utf8_lossy(&came[..end]).into_owned();
    if !head.starts_with("HTTP/1.1 200") {
        return Err(head.lines().next().unwrap_or_default().to_owned());
    }
    let given = head.lines().filter_map(|line| line.split_once(": "));
    let mut given = given.filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    if let Some((_, given)) = given.next_back() {
        *cookie = given.split(';').next().map(str::to_owned);
    }
    if keep && !head.to_ascii_lowercase().contains("connection: close") {
        *connection = Some(stream);
    }
    Ok(char::from(came[end + 4]))
}
