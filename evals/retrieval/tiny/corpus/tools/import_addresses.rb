# Imports the address book of a customer from CSV and tells which rows are broken.
require "csv"

class AddressImport
  REQUIRED = %w[name street postcode city].freeze

  attr_reader :rejected

  def initialize(path)
    @path = path
    @rejected = []
  end

  def each
    CSV.foreach(@path, headers: true).with_index(2) do |row, line|
      missing = REQUIRED.reject { |column| row[column].to_s.strip != "" }
      missing.empty? ? yield(row.to_h) : @rejected << [line, missing]
    end
  end
end
