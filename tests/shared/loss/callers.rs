//! Callers: each makes one call after the other, none of which it repeats, and writes down what became of each.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{net::TcpStream, task::JoinSet, time::timeout};

use super::{
    message::{Broken, Message, Wire},
    serving::is_answer_to,
};

/// A call that takes longer is lost, unless callers are told something else.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Of a POST, in bytes.
const LONGEST_BODY: u32 = 3_000;

/// How a caller goes about it.
#[derive(Debug, Clone, Copy)]
pub struct Habit {
    pub posts: bool,
    pub keeps_connection: bool,
    /// Between an answer and the next call.
    pub think: Duration,
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    Answered,
    /// The function's own error.
    FunctionError,
    /// An error that the function didn't give.
    ProxyError,
    /// The answer began and did not end, or was another's.
    Cut,
    /// There was no answer.
    Nothing,
}

impl Fate {
    pub fn is_loss(self) -> bool {
        match self {
            Self::Answered | Self::FunctionError => false,
            Self::ProxyError | Self::Cut | Self::Nothing => true,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Call {
    pub number: u32,
    pub posted: bool,
    pub fate: Fate,
}

/// Callers at work.
pub struct Callers {
    shared: Arc<Shared>,
    tasks: JoinSet<Vec<Call>>,
}

#[derive(Default)]
struct Shared {
    next: AtomicU32,
    lost: AtomicU32,
    are_to_stop: AtomicBool,
}

/// GET and POST, on a connection that stays and on a new one each time, with and without a pause between calls. More of those
/// who pause, since an idle connection is what they can lose.
pub fn all_habits() -> Vec<Habit> {
    let mut all = Vec::new();
    for posts in [false, true] {
        for keeps_connection in [false, true] {
            for (think, count) in [(0, 2), (20, 10)] {
                let habit = Habit { posts, keeps_connection, think: Duration::from_millis(think) };
                all.extend([habit].repeat(count));
            }
        }
    }
    all
}

impl Callers {
    pub fn start(at: SocketAddr, habits: &[Habit], time_limit: Duration) -> Self {
        let shared = Arc::new(Shared::default());
        let mut tasks = JoinSet::new();
        for &habit in habits {
            let caller = Caller { at, habit, time_limit, wire: None };
            tasks.spawn(caller.call_until_told(Arc::clone(&shared)));
        }
        Self { shared, tasks }
    }

    /// How many calls were begun.
    pub fn begun(&self) -> u32 {
        self.shared.next.load(Ordering::Relaxed)
    }

    /// How many calls had no whole answer, or an error that the function didn't give.
    pub fn lost(&self) -> u32 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Lets everybody finish the call at hand.
    pub async fn finish(self) -> Vec<Call> {
        self.shared.are_to_stop.store(true, Ordering::Relaxed);
        self.tasks.join_all().await.concat()
    }
}

struct Caller {
    at: SocketAddr,
    habit: Habit,
    time_limit: Duration,
    wire: Option<Wire<TcpStream>>,
}

impl Caller {
    async fn call_until_told(mut self, shared: Arc<Shared>) -> Vec<Call> {
        let mut calls = Vec::new();
        while !shared.are_to_stop.load(Ordering::Relaxed) {
            let number = shared.next.fetch_add(1, Ordering::Relaxed);
            let fate = timeout(self.time_limit, self.call(number)).await.unwrap_or(Fate::Nothing);
            shared.lost.fetch_add(u32::from(fate.is_loss()), Ordering::Relaxed);
            if matches!(fate, Fate::Cut | Fate::Nothing) {
                self.wire = None;
            }
            calls.push(Call { number, posted: self.habit.posts, fate });
            if self.habit.think.is_zero() {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(self.habit.think).await;
            }
        }
        calls
    }

    async fn call(&mut self, number: u32) -> Fate {
        let length = if self.habit.posts { (number % LONGEST_BODY) as usize } else { 0 };
        let came = self.exchange(number, length).await;
        let fate = match &came {
            Ok(answer) if answer.field("x-choirmaster-error").is_some() => Fate::ProxyError,
            Ok(answer) if !is_answer_to(number, length, &answer.body) => Fate::Cut,
            Ok(answer) if answer.status() == 200 => Fate::Answered,
            Ok(_) => Fate::FunctionError,
            Err(Broken::Cut) => Fate::Cut,
            Err(Broken::Nothing) => Fate::Nothing,
        };
        if fate.is_loss() {
            println!("call {number} by {:?} was lost: {came:?}", self.habit);
        }
        fate
    }

    async fn exchange(&mut self, number: u32, length: usize) -> Result<Message, Broken> {
        let mut wire = match self.wire.take() {
            Some(wire) => wire,
            None => Wire::new(connect(self.at).await.map_err(|_| Broken::Nothing)?),
        };
        wire.write(&request(self.habit, number, length)).await?;
        let answer = wire.read().await?;
        if self.habit.keeps_connection && !answer.closes() {
            self.wire = Some(wire);
        }
        Ok(answer)
    }
}

async fn connect(at: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(at).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Of those that keep no connection, half say so.
fn request(habit: Habit, number: u32, length: usize) -> Vec<u8> {
    let method = if habit.posts { "POST" } else { "GET" };
    let mut request = format!("{method} /a/call/{number} HTTP/1.1\r\nHost: here\r\n");
    if !habit.keeps_connection && number.is_multiple_of(2) {
        request.push_str("Connection: close\r\n");
    }
    if habit.posts {
        request.extend(["Content-Length: ", &length.to_string(), "\r\n"]);
    }
    request.push_str("\r\n");
    let mut request = request.into_bytes();
    request.resize(request.len() + length, b'.');
    request
}
