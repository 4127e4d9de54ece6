//! Attaching a known model, with and without touching every page.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use tetris_agent::{Access, LoadOptions};
use tetris_density::compute::touch;
use tetris_density::mapping::map_file;

use crate::fixture::Fixture;
use crate::pairs::{Bar, Bench, Unit, seconds};

pub fn benches() -> Vec<Bench> {
    let touched = |name, baseline_name, bar, baseline| Bench {
        name,
        baseline_name,
        unit: Unit::Milliseconds,
        bar,
        ours: attach_and_touch,
        baseline,
    };
    vec![
        Bench {
            name: "attach (per mapping)",
            baseline_name: "the five system calls alone",
            unit: Unit::Microseconds,
            bar: Bar::OursAtMost(5.0),
            ours: attach_per_mapping,
            baseline: bare_calls,
        },
        touched(
            "attach + touch",
            "page cache: map + touch the file",
            Bar::AtMost(1.1),
            page_cache,
        ),
        Bench {
            ours: attach_copy_on_write_and_touch,
            ..touched(
                "attach + touch, copy-on-write",
                "page cache: map + touch the file",
                Bar::AtMost(1.1),
                page_cache,
            )
        },
        touched(
            "attach + touch (tmpfs, 2 MiB)",
            "tmpfs with 4 KiB pages: map + touch",
            Bar::AtMost(0.15),
            small_pages,
        ),
        touched(
            "attach + touch (own file)",
            "own, freshly written copy: map + touch",
            Bar::AtMost(0.3),
            own_file,
        ),
        touched(
            "attach + touch (copying)",
            "pread of every tensor into the heap",
            Bar::AtMost(0.03),
            pread,
        ),
    ]
}

fn attach_per_mapping(fixture: &Fixture) -> Result<f64> {
    let mut mappings = 0;
    let taken = seconds(|| {
        let model = fixture.agent.load(&fixture.file)?;
        mappings = model.report().objects;
        Ok(model)
    })?;
    Ok(taken / mappings as f64)
}

/// Opens, locks, stats, maps and closes each object: the minimum of calls to attach it.
fn bare_calls(fixture: &Fixture) -> Result<f64> {
    let store = fixture.store()?;
    let listing = store.objects()?.objects;
    let paths: Vec<_> = listing
        .iter()
        .map(|entry| store.object_path(&entry.object))
        .collect();
    let taken = seconds(|| {
        let mut maps = Vec::with_capacity(paths.len());
        for path in &paths {
            let file = File::open(path)?;
            let lock = libc::flock {
                l_type: libc::F_RDLCK as libc::c_short,
                l_whence: libc::SEEK_SET as libc::c_short,
                l_start: 0,
                l_len: 0,
                l_pid: 0,
            };
            fcntl(&file, FcntlArg::F_OFD_SETLK(&lock))?;
            // Includes the stat: mapping a whole file queries its length.
            maps.push(map_file(&file)?);
        }
        Ok(maps)
    })?;
    Ok(taken / paths.len() as f64)
}

fn attach_and_touch(fixture: &Fixture) -> Result<f64> {
    attach_as(fixture, Access::ReadOnly)
}

fn attach_copy_on_write_and_touch(fixture: &Fixture) -> Result<f64> {
    attach_as(fixture, Access::CopyOnWrite)
}

fn attach_as(fixture: &Fixture, access: Access) -> Result<f64> {
    let options = LoadOptions::default().with_access(access);
    seconds(|| {
        let model = fixture.agent.load_with(&fixture.file, &options)?;
        model.tensors().for_each(|tensor| touch(tensor.bytes()));
        Ok(model)
    })
}

fn map_and_touch(path: &std::path::Path) -> Result<f64> {
    seconds(|| {
        let map = map_file(&File::open(path)?)?;
        touch(&map);
        Ok(map)
    })
}

fn page_cache(fixture: &Fixture) -> Result<f64> {
    map_and_touch(&fixture.file)
}

fn small_pages(fixture: &Fixture) -> Result<f64> {
    let path = fixture.small_pages.as_ref();
    map_and_touch(path.context("mounting a tmpfs with 4 KiB pages needs root")?)
}

/// A copy as after a download: written in pieces, not read since.
fn own_file(fixture: &Fixture) -> Result<f64> {
    let copy = fixture.work().join("own.safetensors");
    let source = File::open(&fixture.file)?;
    let mut target = File::create(&copy)?;
    let mut piece = vec![0; 64 << 10];
    let mut at = 0;
    while at < fixture.bytes {
        let len = piece.len().min((fixture.bytes - at) as usize);
        source.read_exact_at(&mut piece[..len], at)?;
        target.write_all(&piece[..len])?;
        at += len as u64;
    }
    drop(target);
    let taken = map_and_touch(&copy);
    std::fs::remove_file(&copy)?;
    taken
}

fn pread(fixture: &Fixture) -> Result<f64> {
    let file = File::open(&fixture.file)?;
    let model = fixture.agent.load(&fixture.file)?;
    let lengths: Vec<usize> = model.tensors().map(|tensor| tensor.bytes().len()).collect();
    drop(model);
    seconds(|| {
        let mut at = 0;
        let mut tensors = Vec::with_capacity(lengths.len());
        for len in &lengths {
            let mut bytes = vec![0; *len];
            file.read_exact_at(&mut bytes, at)?;
            at += *len as u64;
            tensors.push(bytes);
        }
        Ok(tensors)
    })
}
