"""Shopify's own library for Python against the sandbox for Shopify."""

import json
import os
from urllib.error import HTTPError
from urllib.parse import parse_qsl, urlsplit

import shopify

from there import SANDBOX, done

shopify.Session.setup(api_key=os.environ["CLIENT_ID"], secret=os.environ["CLIENT_SECRET"])

# The way back from the consent page, as the browser would bring it.
params = dict(parse_qsl(urlsplit(os.environ["CALLBACK"]).query))
assert params["shop"] == "acme.myshopify.com"
assert shopify.Session.validate_hmac(params), "the library takes the signature"
assert shopify.Session.validate_params(dict(params)), "and the timestamp"
assert not shopify.Session.validate_hmac({**params, "shop": "evil.myshopify.com"})

shopify.ShopifyResource.set_site(f"{SANDBOX}/shopify/acme/admin/api/2026-10")
shopify.ShopifyResource.set_headers({"X-Shopify-Access-Token": os.environ["TOKEN"]})
orders = """query Orders($first: Int!, $after: String) {
  orders(first: $first, after: $after, sortKey: CREATED_AT) { nodes { id name } pageInfo { hasNextPage endCursor } } }"""
names, after = [], None
for _ in range(3):
    answer = json.loads(shopify.GraphQL().execute(orders, {"first": 5, "after": after}))
    assert "errors" not in answer, answer
    assert answer["extensions"]["cost"]["throttleStatus"]["currentlyAvailable"] > 0
    page = answer["data"]["orders"]
    names += [order["name"] for order in page["nodes"]]
    after = page["pageInfo"]["endCursor"]
    assert page["pageInfo"]["hasNextPage"]
assert names[0] == "#1001" and len(set(names)) == 15, names

shopify.ShopifyResource.set_headers({"X-Shopify-Access-Token": "no-token"})
try:
    shopify.GraphQL().execute("{ shop { name } }")
    raise SystemExit("a wrong token was taken")
except HTTPError as error:
    assert error.code == 401, error

done(
    "the callback's HMAC and timestamp, and a forged shop refused",
    "GraphQL with variables, orders by pages, the cost of each answer",
    "401 without a right token",
)
