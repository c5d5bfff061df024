//! Serves a function in the form of a program that reads a body and writes one: `fn.sh`, started anew for each call.

use std::{
    convert::Infallible, ffi::OsString, io, os::unix::fs::PermissionsExt, path::PathBuf, process::Stdio,
    sync::Arc, time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Request, Response, StatusCode,
    body::{Body, Incoming},
    header,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::{rt::TokioIo, server::graceful::GracefulShutdown};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixListener,
    process::Command,
    signal::unix::{SignalKind, signal},
    sync::Semaphore,
};

use super::super::runner::{BINARY_FILE, SOCKET};

/// Bytes of a body, in either direction. Above: 413 for a call, 500 for an answer.
const BODY: usize = 64 * 1024 * 1024;
/// Calls that are carried out at once; each is a process. Further ones wait.
const AT_ONCE: usize = 128;

/// What a call comes to; an error is answered with 500 and its text.
type Answer = Result<Response<Full<Bytes>>, String>;

pub(super) fn serve() -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let socket = std::env::var_os(SOCKET).ok_or("no socket is named")?;
    let program = program().map_err(|error| format!("{BINARY_FILE}: {error}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(text)?;
    runtime.block_on(accept(socket, program.into())).map_err(text)
}

/// What to call: the file itself, or the shell where the file doesn't say what reads it.
fn program() -> io::Result<Vec<OsString>> {
    let file = PathBuf::from(".").join(BINARY_FILE);
    let begins = {
        let mut begins = [0; 4];
        let read = io::Read::read(&mut std::fs::File::open(&file)?, &mut begins)?;
        begins[..read].to_vec()
    };
    if begins.starts_with(b"#!") || begins.starts_with(b"\x7fELF") {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700))?;
        Ok(vec![file.into()])
    } else {
        Ok(vec!["sh".into(), file.into()])
    }
}

async fn accept(socket: OsString, program: Arc<[OsString]>) -> io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    let mut end = signal(SignalKind::terminate())?;
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let open = GracefulShutdown::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = end.recv() => break,
        };
        let Ok((stream, _)) = stream else {
            // Too many open files, for example.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let (program, places) = (Arc::clone(&program), Arc::clone(&places));
        let service = service_fn(move |request| {
            let (program, places) = (Arc::clone(&program), Arc::clone(&places));
            async move { Ok::<_, Infallible>(call(request, &program, &places).await) }
        });
        let connection = open.watch(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // A caller that goes away is no fault of the function.
            let _ = connection.await;
        });
    }
    drop(listener);
    open.shutdown().await;
    Ok(())
}

async fn call(request: Request<Incoming>, program: &[OsString], places: &Semaphore) -> Response<Full<Bytes>> {
    let _place = places.acquire().await;
    match carry_out(request, program).await {
        Ok(answer) => answer,
        Err(why) => {
            eprintln!("{why}");
            answer(StatusCode::INTERNAL_SERVER_ERROR, Bytes::from(format!("{why}\n")))
        }
    }
}

fn answer(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let text = header::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, text);
    answer
}

/// The processes of a call. They are killed where nobody waits for its answer any more.
struct Group(Option<u32>);

impl Group {
    /// The call has ended by itself. What it left runs on, until the version is stopped.
    fn leave(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) {
            // It may have ended meanwhile.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn carry_out(request: Request<Incoming>, program: &[OsString]) -> Answer {
    let (head, body) = request.into_parts();
    let too_long =
        || answer(StatusCode::PAYLOAD_TOO_LARGE, format!("a call has at most {BODY} bytes\n").into());
    if body.size_hint().lower() > BODY as u64 {
        return Ok(too_long());
    }
    let body = match Limited::new(body, BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => return Ok(too_long()),
        Err(error) => return Err(format!("the call was cut: {error}")),
    };
    let failed = |error: io::Error| format!("{BINARY_FILE}: {error}");
    let mut child = Command::new(&program[0])
        .args(&program[1..])
        .env("REQUEST_METHOD", head.method.as_str())
        .env("PATH_INFO", head.uri.path())
        .env("QUERY_STRING", head.uri.query().unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // In a group of its own: when the runner is asked to end, calls that run are not.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let group = Group(child.id());
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A function needn't read what it is given.
            let _ = stdin.write_all(&body).await;
        }
    };
    let read = async {
        let mut output = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(BODY as u64 + 1).read_to_end(&mut output).await?;
        }
        Ok(output)
    };
    let ((), output) = tokio::join!(write, read);
    let output = output.map_err(failed)?;
    if output.len() > BODY {
        return Err(format!("{BINARY_FILE} wrote more than {BODY} bytes"));
    }
    let status = child.wait().await.map_err(failed)?;
    group.leave();
    if status.success() {
        Ok(answer(StatusCode::OK, output.into()))
    } else {
        Err(format!("{BINARY_FILE}: {status}"))
    }
}
