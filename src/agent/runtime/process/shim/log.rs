use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::Duration,
};

use tokio::{io::AsyncReadExt, net::unix::pipe::Receiver, sync::mpsc::UnboundedReceiver, time::Instant};

use super::super::run::Run;

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;
/// Bytes a second that are written. What a function writes beyond that is read, so that it needn't wait, and dropped.
const A_SECOND: u64 = 4 * 1024 * 1024;

/// The log of a run: two files of half the limit each.
#[derive(Debug)]
pub(super) struct Log {
    run: Run,
    file: File,
    written: u64,
    half: u64,
    second: Instant,
    left: u64,
    dropped: u64,
}

impl Log {
    pub(super) fn open(run: Run, limit: u64) -> io::Result<Self> {
        let file = open(&run.log())?;
        let written = file.metadata()?.len();
        Ok(Self {
            run,
            file,
            written,
            half: (limit / 2).max(1),
            second: Instant::now(),
            left: A_SECOND,
            dropped: 0,
        })
    }

    /// Writes what comes through the pipe and what the shim notes, until nobody notes anything more and the pipe is empty.
    pub(super) async fn keep(mut self, mut pipe: Receiver, mut notes: UnboundedReceiver<String>) {
        let mut chunk = vec![0; CHUNK];
        loop {
            tokio::select! {
                biased;
                note = notes.recv() => match note {
                    Some(note) => self.write(format!("choirmaster: {note}\n").as_bytes()),
                    None => break,
                },
                read = pipe.read(&mut chunk) => match read {
                    Ok(read) if read > 0 => self.take(&chunk[..read]),
                    // This process holds the other end too, so there is none while it runs.
                    Ok(_) | Err(_) => break,
                },
            }
        }
        while let Ok(read @ 1..) = pipe.try_read(&mut chunk) {
            self.take(&chunk[..read]);
        }
        self.tell_dropped();
    }

    fn take(&mut self, bytes: &[u8]) {
        if self.second.elapsed() >= Duration::from_secs(1) {
            self.tell_dropped();
            (self.second, self.left) = (Instant::now(), A_SECOND);
        }
        let fits = bytes.len().min(self.left as usize);
        self.left -= fits as u64;
        self.dropped += (bytes.len() - fits) as u64;
        self.write(&bytes[..fits]);
    }

    fn tell_dropped(&mut self) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            let note =
                format!("\nchoirmaster: {dropped} bytes of this log were dropped: too many in a second\n");
            self.write(note.as_bytes());
        }
    }

    /// A log that can't be written is no reason to end what is logged.
    fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.written >= self.half && self.turn().is_err() {
                return;
            }
            let fits = bytes.len().min((self.half - self.written) as usize);
            if self.file.write_all(&bytes[..fits]).is_err() {
                return;
            }
            self.written += fits as u64;
            bytes = &bytes[fits..];
        }
    }

    fn turn(&mut self) -> io::Result<()> {
        std::fs::rename(self.run.log(), self.run.older_log())?;
        self.file = open(&self.run.log())?;
        self.written = 0;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
