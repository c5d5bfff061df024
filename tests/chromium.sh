# Sourced by tests/run: Chromium and its driver from the system's packages. Sets CHOIRMASTER_TEST_CHROMEDRIVER to the driver where
# it isn't on the path. Tests of the web page start both themselves.
# shellcheck shell=sh

chromium_say() { printf '%s\n' "tests: $*" >&2; }

chromium_browser() {
    command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 ||
        command -v google-chrome >/dev/null 2>&1 || [ -d /Applications/Chromium.app ] ||
        [ -d "/Applications/Google Chrome.app" ]
}

# Fedora and others keep the driver away from the path.
chromium_driver() {
    if command -v chromedriver >/dev/null 2>&1; then return 0; fi
    for chromium_folder in /usr/lib64/chromium-browser /usr/lib/chromium /usr/lib/chromium-browser; do
        if [ -x "$chromium_folder/chromedriver" ]; then
            export CHOIRMASTER_TEST_CHROMEDRIVER="$chromium_folder/chromedriver"
            return 0
        fi
    done
    return 1
}

chromium_install() {
    if command -v apt-get >/dev/null 2>&1; then
        postgres_as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2 &&
            postgres_as_root env DEBIAN_FRONTEND=noninteractive \
                apt-get install -q -y --no-install-recommends chromium chromium-driver >&2
    elif command -v dnf >/dev/null 2>&1; then postgres_as_root dnf install -q -y chromium chromedriver >&2
    elif command -v apk >/dev/null 2>&1; then postgres_as_root apk add --quiet chromium chromium-chromedriver >&2
    elif command -v pacman >/dev/null 2>&1; then postgres_as_root pacman -S --noconfirm --quiet chromium >&2
    elif command -v brew >/dev/null 2>&1; then brew install --quiet --cask chromium chromedriver >&2
    else return 1
    fi
}

chromium_find() {
    if chromium_browser && chromium_driver; then return 0; fi
    chromium_say "installing Chromium and its driver from the system's packages"
    if chromium_install && chromium_browser && chromium_driver; then return 0; fi
    chromium_say "no chromium with a chromedriver, and none of apt-get, dnf, apk, pacman and brew has them: install them and try again"
    return 1
}
