"""Leads a client library that knows only its provider's own hosts to a sandbox."""

import os
import sys

import requests
from requests.adapters import HTTPAdapter

SANDBOX = os.environ["SANDBOX"]


class There(HTTPAdapter):
    """Sends what is meant for https://NAME.DOMAIN/... to SANDBOX/PROVIDER/NAME/..."""

    def __init__(self, provider, domain):
        super().__init__()
        self.provider, self.domain = provider, domain

    def send(self, request, **kwargs):
        scheme, rest = request.url.split("://", 1)
        host, _, path = rest.partition("/")
        name = host.removesuffix("." + self.domain)
        assert scheme == "https" and name != host, f"the client calls {host}"
        meant = request.url
        request.url = f"{SANDBOX}/{self.provider}/{name}/{path}"
        answer = super().send(request, **kwargs)
        # To the client it was the provider's own host, in links too.
        answer.url = answer.request.url = meant
        here, there = f"{SANDBOX}/{self.provider}/{name}", f"https://{host}"
        answer._content = answer.content.replace(here.encode(), there.encode())
        return answer


def session(provider, name, domain):
    """A session whose requests to one account's host go to the sandbox; any other host fails."""
    made = requests.Session()
    made.mount("https://", Nowhere())
    made.mount(f"https://{name}.{domain}/", There(provider, domain))
    return made


class Nowhere(HTTPAdapter):
    """A host that no sandbox stands for."""

    def send(self, request, **kwargs):
        raise AssertionError(f"the client calls {request.url.split('?')[0]}")


def done(*what):
    """One line for each thing that was covered, for the list in docs/providers.md."""
    for line in what:
        print("covered:", line)
    sys.stdout.flush()
