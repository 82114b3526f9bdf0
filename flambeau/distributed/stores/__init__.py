"""Stores: small tables of bytes by key that the processes of a group share, by which they find each other.

store       what all stores offer; prefix_store: one below a prefix
table       the table itself, in one process; table_store: what stores that ask one have in common
hash_store  a table for the threads of one process
listener    sockets that listen, and that notice when a machine is gone
tcp_server  a table that others reach by TCP; tcp_store: its clients
file_store  a table kept in a file
"""

from flambeau.distributed.stores.file_store import FileStore
from flambeau.distributed.stores.hash_store import HashStore
from flambeau.distributed.stores.prefix_store import PrefixStore
from flambeau.distributed.stores.store import Store
from flambeau.distributed.stores.tcp_store import TCPStore

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]
