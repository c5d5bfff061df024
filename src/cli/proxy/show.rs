//! What is printed of a proxy.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use proxy::{
    control::form::{Applied, Status, TableNumber},
    form::{ServiceForm, TableForm},
};

use crate::cli::show;

pub fn status(out: &mut impl Write, status: &Status, as_json: bool) -> io::Result<()> {
    if as_json {
        return show::json(out, status);
    }
    let connections = show::counted(status.connections as u64, "connection", "connections");
    let threads = show::counted(status.threads as u64, "thread", "threads");
    let listen = status.listen.iter().map(|address| {
        let with_tls = if status.tls.contains(address) { " (TLS)" } else { "" };
        format!("{address}{with_tls}")
    });
    let others = [(&status.pass_through, "TLS, unopened"), (&status.tcp, "TCP"), (&status.udp, "UDP")];
    let others = others.iter().flat_map(|(all, what)| all.iter().map(move |one| format!("{one} ({what})")));
    let listen: Vec<String> = listen.chain(others).collect();
    writeln!(out, "process {} of {} serves on {}", status.pid, status.program, listen.join(", "))?;
    if !status.metrics.is_empty() {
        writeln!(out, "metrics on {}", status.metrics.join(", "))?;
    }
    writeln!(out, "table {}, {connections}, {threads}", number(status.table))?;
    if !status.held {
        writeln!(out, "no process holds its sockets: run `choirmaster proxy` again")?;
    }
    if let Some(why) = &status.upgrade_failed {
        writeln!(out, "the last upgrade did not come about: {why}")?;
    }
    let rows = status.services.iter().flat_map(|service| {
        service.variations.iter().map(|variation| {
            vec![
                service.name.clone(),
                variation.name.clone(),
                show::hundredths(u32::from(variation.share)),
                variation.in_flight.to_string(),
                variation.version.clone(),
                variation.targets.join(" "),
            ]
        })
    });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        write!(
            out,
            "\n{}",
            show::table(&["SERVICE", "VARIATION", "SHARE", "IN FLIGHT", "VERSION", "TARGETS"], rows)
        )?;
    }
    let finishing = status
        .finishing
        .iter()
        .flat_map(|process| process.leaving.iter().map(move |version| (Some(process.pid), version)));
    let leaving = status.leaving.iter().map(|version| (None, version)).chain(finishing);
    let rows: Vec<_> = leaving
        .map(|(pid, version)| {
            vec![
                version.service.clone(),
                version.variation.clone(),
                version.in_flight.to_string(),
                version.version.clone(),
                pid.unwrap_or(status.pid).to_string(),
            ]
        })
        .collect();
    if !rows.is_empty() {
        write!(out, "\n{}", show::table(&["LEAVING", "VARIATION", "IN FLIGHT", "VERSION", "PROCESS"], rows))?;
    }
    for process in &status.finishing {
        let left = show::counted(process.connections as u64, "connection", "connections");
        let left = if process.answers { left } else { "it doesn't answer".to_owned() };
        writeln!(out, "process {} finishes what it has: {left}", process.pid)?;
    }
    Ok(())
}

pub fn table(out: &mut impl Write, table: &TableForm, as_json: bool) -> io::Result<()> {
    if as_json {
        return show::json(out, table);
    }
    let number = TableNumber { epoch: table.epoch, generation: table.generation };
    writeln!(out, "table {}", self::number(number))?;
    let rows: Vec<_> = table.services.iter().flat_map(rows).collect();
    if rows.is_empty() {
        return writeln!(out, "it has no services");
    }
    write!(out, "\n{}", show::table(&["SERVICE", "AT", "VARIATION", "SHARE", "VERSION", "TARGETS"], rows))
}

fn rows(service: &ServiceForm) -> Vec<Vec<String>> {
    let mut shares = BTreeMap::new();
    for &(from, to, variation) in service.runs.iter().flatten() {
        *shares.entry(usize::from(variation)).or_default() += u32::from(to - from);
    }
    let ports = service.ports.iter().map(|port| format!(":{port}"));
    let mut at: Vec<String> = service.hosts.iter().cloned().chain(ports).collect();
    if at.is_empty() {
        at.push(format!("/{}", service.name));
    }
    let at = at.join(" ");
    let row = |(place, variation): (usize, &proxy::form::VariationForm)| {
        vec![
            service.name.clone(),
            at.clone(),
            variation.name.clone(),
            show::hundredths(shares.get(&place).copied().unwrap_or_default()),
            variation.version.clone(),
            variation.targets.join(" "),
        ]
    };
    service.variations.iter().enumerate().map(row).collect()
}

pub fn applied(out: &mut impl Write, applied: &Applied, as_json: bool) -> io::Result<()> {
    if as_json {
        return show::json(out, applied);
    }
    writeln!(out, "table {} is in force", number(applied.table))?;
    for pid in &applied.not_told {
        writeln!(
            out,
            "process {pid}, which finishes what it has, can't be told and goes on by the one before"
        )?;
    }
    Ok(())
}

pub fn upgraded(out: &mut impl Write, before: u32, status: &Status, as_json: bool) -> io::Result<()> {
    if as_json {
        return show::json(out, status);
    }
    writeln!(out, "process {} of {} has taken over from {before}", status.pid, status.program)
}

pub fn draining(out: &mut impl Write, status: &Status, as_json: bool) -> io::Result<()> {
    if as_json {
        return show::json(out, status);
    }
    let left = show::counted(status.connections as u64, "connection", "connections");
    writeln!(out, "the proxy takes nothing more and ends when what it has has ended: {left}")
}

fn number(table: TableNumber) -> String {
    format!("{}.{}", table.epoch, table.generation)
}
