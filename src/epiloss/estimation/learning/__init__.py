"""The one learning engine: codes shared by all models, boosted trees and a ridge regression on them."""
