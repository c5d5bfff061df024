use std::io;

use tokio::{io::AsyncReadExt as _, net::TcpStream};

use super::parse::{Announced, MAX_HEADER, Parsed, parse};

/// Takes the header in front of a connection, and no byte behind it. How long that may take is the caller's business.
pub(crate) async fn read(stream: &mut TcpStream) -> io::Result<Announced> {
    let mut came = Vec::with_capacity(128);
    let mut room = [0; MAX_HEADER];
    loop {
        let (most, ends_at_line) = match parse(&came) {
            Ok(Parsed::Whole(announced)) => return Ok(announced),
            Ok(Parsed::Needs(needs)) => (needs, false),
            Ok(Parsed::NeedsLine(most)) => (most, true),
            Err(malformed) => return Err(io::Error::new(io::ErrorKind::InvalidData, malformed)),
        };
        let most = most.min(room.len());
        let there = stream.peek(&mut room[..most]).await?;
        if there == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line_end = room[..there].iter().position(|&byte| byte == b'\n').map(|at| at + 1);
        let take = line_end.filter(|_| ends_at_line).unwrap_or(there);
        stream.read_exact(&mut room[..take]).await?;
        came.extend_from_slice(&room[..take]);
    }
}
