//! A router in memory, behind the port by which all are led.

use std::{
    collections::VecDeque,
    future::pending,
    io,
    path::Path,
    sync::{Mutex, MutexGuard},
};

use router::{Answer, Applied, Checked, Operations, Router, RouterError};
use traffic::{RouterKind, desired::DesiredConfig, observed::ObservedConfig};

use super::states::obeyed;

#[derive(Debug, Default)]
pub struct FakeRouter(Mutex<Inside>);

#[derive(Debug, Default)]
pub struct Inside {
    pub does: ObservedConfig,
    pub told: Vec<DesiredConfig>,
    pub connections: Option<u64>,
    /// What becomes of what it is told next.
    pub applies: VecDeque<Turn>,
    /// It can't be read.
    pub is_away: bool,
}

#[derive(Debug, Clone, Copy)]
pub enum Turn {
    Refuse,
    Lie,
    Hang,
    Panic,
}

impl FakeRouter {
    pub fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Operations for FakeRouter {
    fn kind(&self) -> RouterKind {
        RouterKind::Embedded
    }

    fn check<'a>(&'a self, _: Option<&'a Path>) -> Answer<'a, Checked> {
        Box::pin(async { Ok(Checked { refused: None, left_over: Vec::new(), warnings: Vec::new() }) })
    }

    fn reload(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn adopt<'a>(&'a self, _: &'a str) -> Answer<'a, String> {
        Box::pin(async { Err(RouterError::Unable { router: "nobody", what: "nothing".to_owned() }) })
    }
}

impl Router for FakeRouter {
    fn apply<'a>(&'a self, wanted: &'a DesiredConfig) -> Answer<'a, Applied> {
        Box::pin(async move {
            let turn = self.inside().applies.pop_front();
            match turn {
                Some(Turn::Refuse) => {
                    let said = "line 1\n  line 2\u{1b}[31m\n".to_owned();
                    return Err(RouterError::Refused { router: "fake", said });
                }
                Some(Turn::Hang) => pending::<()>().await,
                Some(Turn::Panic) => panic!("a router that isn't well made"),
                Some(Turn::Lie) => {}
                None => {
                    let mut inside = self.inside();
                    inside.does = obeyed(wanted);
                    inside.told.push(wanted.clone());
                }
            }
            Ok(Applied { number: wanted.number, was_reloaded: false })
        })
    }

    fn read(&self) -> Answer<'_, ObservedConfig> {
        Box::pin(async move {
            let inside = self.inside();
            if inside.is_away {
                let source = io::Error::from(io::ErrorKind::ConnectionRefused);
                return Err(RouterError::Away { router: "fake", doing: "reading".to_owned(), source });
            }
            Ok(inside.does.clone())
        })
    }

    fn connections<'a>(&'a self, _: &'a str, _: &'a str) -> Answer<'a, Option<u64>> {
        Box::pin(async { Ok(self.inside().connections) })
    }
}
