//! Who can be asked for measurements, and which metrics are shared by name.

use std::path::{Path, PathBuf};

use super::{
    ConfigError, Fault,
    section::{Field, Section},
};
use language::{Diagnostic, MAX_STRATEGY_BYTES, Site, analysis::providers::Providers};

/// Most files in the folder of templates.
const MAX_FILES: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Analysis {
    /// The file that names providers; `None`: there are none but the children.
    pub providers: Option<PathBuf>,
    /// A folder of YAML files; `None`: there are no templates.
    pub templates: Option<PathBuf>,
}

impl Analysis {
    /// Reads the files, and reports every fault of them.
    pub fn site(&self) -> Result<Site, ConfigError> {
        let (mut site, mut faults) = (Site::default(), Vec::new());
        if let Some(file) = &self.providers
            && let Some(text) = read(file, "analysis.providers", &mut faults)
        {
            let (providers, found) = Providers::read(&text);
            site.providers = providers;
            report(file, &found, &mut faults);
        }
        for file in self.files(&mut faults) {
            if let Some(text) = read(&file, "analysis.templates", &mut faults) {
                let found = site.templates.read(&text);
                report(&file, &found, &mut faults);
            }
        }
        if faults.is_empty() { Ok(site) } else { Err(ConfigError { faults }) }
    }

    /// In the order of their names, so that of two templates of one name always the same is the second.
    fn files(&self, faults: &mut Vec<Fault>) -> Vec<PathBuf> {
        let Some(folder) = &self.templates else { return Vec::new() };
        let mut fault = |message: String| {
            let message = format!("{} {message}", folder.display());
            faults.push(Fault { place: "analysis.templates".to_owned(), message });
            Vec::new()
        };
        let entries = std::fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => return fault(format!("can't be read: {error}")),
        };
        let is_yaml = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "yml" || ext == "yaml");
        let mut files: Vec<PathBuf> = entries.iter().map(std::fs::DirEntry::path).filter(is_yaml).collect();
        files.sort();
        if files.len() > MAX_FILES {
            return fault(format!("holds {} files, at most {MAX_FILES} are read", files.len()));
        }
        files
    }
}

fn read(file: &Path, key: &str, faults: &mut Vec<Fault>) -> Option<String> {
    let mut fault = |message: String| {
        let message = format!("{} {message}", file.display());
        faults.push(Fault { place: key.to_owned(), message });
        None
    };
    match std::fs::read(file) {
        Err(error) => fault(format!("can't be read: {error}")),
        Ok(bytes) if bytes.len() > MAX_STRATEGY_BYTES => {
            fault(format!("has more than {MAX_STRATEGY_BYTES} bytes"))
        }
        Ok(bytes) => String::from_utf8(bytes).map_or_else(|_| fault("is not UTF-8 text".to_owned()), Some),
    }
}

fn report(file: &Path, found: &[Diagnostic], faults: &mut Vec<Fault>) {
    faults.extend(found.iter().map(|diagnostic| Fault {
        place: format!("{}:{}:{}", file.display(), diagnostic.line, diagnostic.column),
        message: match &diagnostic.fix {
            Some(fix) => format!("{}; {fix}", diagnostic.message),
            None => diagnostic.message.clone(),
        },
    }));
}

impl Section for Analysis {
    fn name(&self) -> &'static str {
        "analysis"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![Field::new("providers", &mut self.providers), Field::new("templates", &mut self.templates)]
    }
}
